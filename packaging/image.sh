#!/bin/bash
# Makes a container image from a built binary, without a container daemon, and says what it made.
#
#   packaging/image.sh [OUT]          OUT, the folder of the image, defaults to target/image
#   WARREN_BIN=PATH                   the binary (default: target/release/warren)
#   ARCH=aarch64                      the architecture of the binary, which is static if it is not this machine's
#   WARREN_VERSION=1.2.3              as for packaging/build.sh
#   IMAGE="NAME:TAG NAME:TAG"         its names (default: warren:latest)
#   LOADER=COMMAND                    what loads it (default: docker or podman, whichever is here and answers; `none` loads nothing)
#
# OUT/warren-oci.tar is the image: `docker load`, `podman load`, `skopeo copy oci-archive:OUT/warren-oci.tar docker://REGISTRY/NAME:TAG`.
# OUT/root.tar is all that is in it: the binary, the libraries it is linked with as they are on this machine, the default
# configuration. OUT/warren.cdx.json is its bill of materials. The same commit, binary and libraries give the same bytes.
# Needs: tar, binutils, ldd, python3, cargo (for the bill of materials).
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/common.sh

BIN=${WARREN_BIN:-$TARGET/release/warren}
OUT=${1:-$TARGET/image}
IMAGE=${IMAGE:-warren:latest}
ID=65532 # the user of images without root

[ -x "$BIN" ] || { echo "no binary $BIN: run \`make build\`, or say which with WARREN_BIN" >&2; exit 1; }
umask 022
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
root=$WORK/root
mkdir -p "$OUT"

binary() {
  install -D -m 0755 "$BIN" "$root/usr/bin/warren"
  "${TOOLS}strip" --strip-debug "$root/usr/bin/warren"
  links "$root/usr/bin"
}

# Each under the path that the loader looks for; of names resolved by the C library nothing more is needed since glibc 2.34.
libraries() {
  local file list
  [ -z "$TOOLS" ] || return 0
  list=$(ldd "$BIN" 2>&1) || return 0 # a static binary has none
  { grep -o '/[^ ]*' <<<"$list" || true; } | while read -r file; do install -D -m 0755 "$(realpath "$file")" "$root$file"; done
}

# The folder that RabbitMQ's image has, with what it has there: `guest` may come from everywhere, as it is called from other containers.
settings() {
  install -D -m 0644 packaging/rabbitmq.conf "$root/etc/rabbitmq/rabbitmq.conf"
  install -d "$root/etc/rabbitmq/conf.d"
  printf '## The defaults of the container image. The published ports are decided by `docker run -p`.\nloopback_users.guest = false\n' \
    >"$root/etc/rabbitmq/conf.d/10-defaults.conf"
  printf 'root:x:0:0:root:/:/sbin/nologin\nwarren:x:%s:%s:warren:/var/lib/warren:/sbin/nologin\n' $ID $ID >"$root/etc/passwd"
  printf 'root:x:0:\nwarren:x:%s:\n' $ID >"$root/etc/group"
  install -D -m 0644 LICENSE "$root/usr/share/doc/warren/copyright"
  install -D -m 0644 README.md "$root/usr/share/doc/warren/README.md"
  python3 packaging/sbom.py "$VERSION" "$ARCH-unknown-linux-gnu" >"$OUT/warren.cdx.json"
  install -D -m 0644 "$OUT/warren.cdx.json" "$root/usr/share/doc/warren/warren.cdx.json"
}

# The folder of the data belongs to the server, everything else to root.
archive() {
  local same=(--sort=name --mtime="@$SOURCE_DATE_EPOCH" --numeric-owner)
  tar --create "${same[@]}" --owner=0 --group=0 -C "$root" -f "$OUT/root.tar" .
  mkdir -p "$WORK/data/var/lib/warren" "$WORK/data/tmp"
  chmod 0750 "$WORK/data/var/lib/warren"
  tar --append "${same[@]}" --owner=$ID --group=$ID -C "$WORK/data" -f "$OUT/root.tar" var/lib/warren
  chmod 1777 "$WORK/data/tmp"
  tar --append "${same[@]}" --owner=0 --group=0 -C "$WORK/data" -f "$OUT/root.tar" tmp
  local names=() name
  for name in $IMAGE; do names+=(--name "$name"); done
  python3 packaging/oci.py --root "$OUT/root.tar" "${names[@]}" --version "$VERSION" --sbom "$OUT/warren.cdx.json" \
    --revision "$(git rev-parse HEAD 2>/dev/null || echo unknown)" --epoch "$SOURCE_DATE_EPOCH" \
    --arch "$DEB_ARCH" --out "$OUT/warren-oci.tar" >"$OUT/digest"
}

loader() {
  local one
  for one in ${LOADER:-docker podman}; do
    if command -v "$one" >/dev/null && "$one" info >/dev/null 2>&1; then echo "$one"; return; fi
  done
}

binary
libraries
settings
archive
echo "made in $OUT: warren-oci.tar ($(du -h --apparent-size "$OUT/warren-oci.tar" | cut -f1)), $(cat "$OUT/digest")"
with=$(loader)
if [ -n "$with" ]; then
  "$with" load -i "$OUT/warren-oci.tar"
  echo "image $IMAGE loaded: $with run -d -p 5672:5672 -p 15672:15672 -v warren:/var/lib/warren ${IMAGE%% *}"
else
  echo "load it where Docker or Podman is: docker load -i $OUT/warren-oci.tar"
fi
