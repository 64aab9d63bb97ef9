#!/bin/bash
# Makes everything of a release for x86-64 and arm64: static tarballs, Debian and RPM packages with debug symbols apart, container
# images, bills of materials; dashboards and alerts, Helm chart, checksums, signatures.
#
#   packaging/release.sh [OUT]        OUT defaults to target/warren-VERSION
#   ARCHES="x86_64 aarch64"           the architectures; the default is both
#   BINARIES=FOLDER                   has ARCH/warren and ARCH/warren-static, built already: none is compiled then
#   MINISIGN_KEY=FILE                 signs the checksums with this key of minisign (it asks for the password)
#   GPG_KEY=ID                        signs the checksums with this key of gpg
#   WARREN_VERSION, MAINTAINER        as for packaging/build.sh
#
# Needs what packaging/build.sh and packaging/image.sh need, and the static C library (Debian: libc6-dev has it). For the other
# architecture: its C compiler (Debian: gcc-aarch64-linux-gnu, gcc-x86-64-linux-gnu) and Rust's standard library (rustup target add).
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/common.sh
OUT=${1:-$TARGET/warren-$VERSION}
HERE=$(uname -m)
ARCHES=${ARCHES:-x86_64 aarch64}
BINARIES=${BINARIES:-}
mkdir -p "$OUT"

# Needs of the other architecture, said before anything is compiled.
need_cross() { # ARCH
  [ "$1" != "$HERE" ] || return 0
  command -v "$1-linux-gnu-gcc" >/dev/null || {
    echo "missing: $1-linux-gnu-gcc, which compiles C for $1. Debian: apt-get install gcc-${1/_/-}-linux-gnu. Or ARCHES=$HERE leaves $1 out." >&2
    exit 1
  }
  [ -n "$BINARIES" ] || [ -d "$(rustc --print target-libdir --target "$1-unknown-linux-gnu")" ] || rustup target add "$1-unknown-linux-gnu"
}

# The static one first: what stays in the folder of the target is the binary that everybody expects there.
compile() { # ARCH
  local target=$1-unknown-linux-gnu upper built=$TARGET/release options=()
  if [ "$1" != "$HERE" ]; then
    upper=$(tr 'a-z-' 'A-Z_' <<<"$target")
    export "CARGO_TARGET_${upper}_LINKER=$1-linux-gnu-gcc"
    built=$TARGET/$target/release
    options=(--target "$target")
  fi
  mkdir -p "$TARGET/binaries/$1"
  cargo rustc --release --locked --package warren --bin warren "${options[@]}" -- -C target-feature=+crt-static
  cp "$built/warren" "$TARGET/binaries/$1/warren-static"
  cargo build --release --locked --package warren "${options[@]}"
  cp "$built/warren" "$TARGET/binaries/$1/warren"
}

# Programs that a static binary would look for on the machine it runs on are none. Only this machine's is started.
check_static() { # ARCH BINARY
  ! readelf -d "$2" | grep NEEDED >/dev/null || { echo "$2 needs libraries: it is not static" >&2; exit 1; }
  [ "$1" != "$HERE" ] || "$2" --version >/dev/null
}

image() { # ARCH BINARY
  local work=$OUT/.image arch
  arch=$(sed -e 's/x86_64/amd64/' -e 's/aarch64/arm64/' <<<"$1")
  ARCH=$1 WARREN_BIN=$2 IMAGE="warren:latest warren:${VERSION//\~/-}" LOADER=none packaging/image.sh "$work"
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

for arch in $ARCHES; do need_cross "$arch"; done
if [ -z "$BINARIES" ]; then
  BINARIES=$TARGET/binaries
  for arch in $ARCHES; do compile "$arch"; done
fi
# The texts of the man pages come from a program that runs here; they are the same for all architectures.
HELP_BIN=$BINARIES/$HERE/warren-static
[ -x "$HELP_BIN" ] || { cargo build --release --locked --package warren; HELP_BIN=$TARGET/release/warren; }
for arch in $ARCHES; do
  check_static "$arch" "$BINARIES/$arch/warren-static"
  ARCH=$arch HELP_BIN=$HELP_BIN WARREN_BIN=$BINARIES/$arch/warren STATIC_BIN=$BINARIES/$arch/warren-static packaging/build.sh "$OUT" >/dev/null
  image "$arch" "$BINARIES/$arch/warren-static"
done
chart
sums
echo "made in $OUT:"
(cd "$OUT" && find . -maxdepth 1 -type f -printf '%P\n' | LC_ALL=C sort | xargs du -h --apparent-size | sed 's/^/  /')
