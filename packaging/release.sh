#!/bin/bash
# Makes everything of a release for the architecture of this machine: static tarball, Debian and RPM packages with debug symbols apart,
# container image, bill of materials, dashboards and alerts, Helm chart, checksums, signatures. Run it on an x86-64 and on an arm64
# machine with the same OUT to have both; the checksums then cover both.
#
#   packaging/release.sh [OUT]        OUT defaults to target/warren-VERSION
#   MINISIGN_KEY=FILE                 signs the checksums with this key of minisign (it asks for the password)
#   GPG_KEY=ID                        signs the checksums with this key of gpg
#   WARREN_BIN, STATIC_BIN            binaries that are built already: none is compiled then
#   WARREN_VERSION, MAINTAINER        as for packaging/build.sh
#
# Needs what packaging/build.sh and packaging/image.sh need, and the static C library (Debian: libc6-dev has it).
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/common.sh
OUT=${1:-$TARGET/warren-$VERSION}
mkdir -p "$OUT"

# The static one first: what stays in target/release is the binary that everybody expects there.
compile() {
  mkdir -p "$TARGET/release-static"
  cargo rustc --release --locked --package warren --bin warren -- -C target-feature=+crt-static
  cp "$TARGET/release/warren" "$TARGET/release-static/warren"
  cargo build --release --locked --package warren
  WARREN_BIN=$TARGET/release/warren STATIC_BIN=$TARGET/release-static/warren
}

# Programs that a static binary would look for on the machine it runs on are none.
check_static() {
  ! readelf -d "$STATIC_BIN" | grep -q NEEDED || { echo "$STATIC_BIN needs libraries: it is not static" >&2; exit 1; }
  "$STATIC_BIN" --version >/dev/null
}

image() {
  local work=$OUT/.image arch
  arch=$(uname -m | sed -e 's/x86_64/amd64/' -e 's/aarch64/arm64/')
  WARREN_BIN=$STATIC_BIN IMAGE="warren:latest warren:${VERSION//\~/-}" LOADER=none packaging/image.sh "$work"
  mv "$work/warren-oci.tar" "$OUT/warren-$VERSION-oci-$arch.tar"
  mv "$work/warren.cdx.json" "$OUT/warren-$VERSION-$arch.cdx.json"
  rm -r "$work"
}

# As `helm package` names and lays it out.
chart() {
  local work name=warren-${VERSION//\~/-}
  work=$(mktemp -d)
  cp -a packaging/helm/warren "$work/warren"
  sed -i -e "s/^version: .*/version: ${VERSION//\~/-}/" -e "s/^appVersion: .*/appVersion: \"${VERSION//\~/-}\"/" "$work/warren/Chart.yaml"
  tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$work" warren | gzip -n -9 >"$OUT/$name-helm.tgz"
  rm -r "$work"
}

sums() {
  (cd "$OUT" && find . -maxdepth 1 -type f ! -name 'SHA256SUMS*' -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
  if [ -n "${MINISIGN_KEY:-}" ]; then minisign -S -s "$MINISIGN_KEY" -m "$OUT/SHA256SUMS" -x "$OUT/SHA256SUMS.minisig" -t "warren $VERSION"; fi
  if [ -n "${GPG_KEY:-}" ]; then gpg --yes --armor --detach-sign --local-user "$GPG_KEY" --output "$OUT/SHA256SUMS.asc" "$OUT/SHA256SUMS"; fi
  if [ -z "${MINISIGN_KEY:-}${GPG_KEY:-}" ]; then echo "not signed: MINISIGN_KEY or GPG_KEY names the key of the releaser"; fi
}

if [ -z "${WARREN_BIN:-}" ]; then compile; fi
STATIC_BIN=${STATIC_BIN:-$WARREN_BIN}
export WARREN_BIN STATIC_BIN
check_static
packaging/build.sh "$OUT" >/dev/null
image
chart
sums
echo "made in $OUT:"
(cd "$OUT" && find . -maxdepth 1 -type f -printf '%P\n' | LC_ALL=C sort | xargs du -h --apparent-size | sed 's/^/  /')
