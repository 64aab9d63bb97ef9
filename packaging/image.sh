#!/bin/bash
# Makes a container image from a built binary, and says what it made.
#
#   packaging/image.sh [OUT]          OUT, the folder that the image is built from, defaults to target/image
#   WARREN_BIN=PATH                   the binary (default: target/release/warren)
#   IMAGE=NAME[:TAG]                  its name (default: warren)
#   BUILDER=COMMAND                   what builds it (default: docker, podman or `buildah`, whichever is here and answers)
#
# OUT/root.tar is all that is in the image: the binary, the libraries it is linked with as they are on this machine, the default
# configuration. The same commit, binary and libraries give the same bytes. Needs: tar, binutils, ldd, and for the image one of
# the builders.
set -euo pipefail
cd "$(dirname "$0")/.."

TARGET=${CARGO_TARGET_DIR:-target}
BIN=${WARREN_BIN:-$TARGET/release/warren}
OUT=${1:-$TARGET/image}
IMAGE=${IMAGE:-warren}
NAMES="rabbitmqctl rabbitmq-diagnostics rabbitmq-queues rabbitmq-upgrade rabbitmq-plugins rabbitmq-streams"
ID=65532 # the user of images without root

[ -x "$BIN" ] || { echo "no binary $BIN: run \`make build\`, or say which with WARREN_BIN" >&2; exit 1; }
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
umask 022
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
root=$WORK/root
mkdir -p "$OUT"

binary() {
  local name
  install -D -m 0755 "$BIN" "$root/usr/bin/warren"
  strip --strip-debug "$root/usr/bin/warren"
  for name in $NAMES; do ln -s warren "$root/usr/bin/$name"; done
}

# Each under the path that the loader looks for; of names resolved by the C library nothing more is needed since glibc 2.34.
libraries() {
  local file
  ldd "$BIN" | grep -o '/[^ ]*' | while read -r file; do install -D -m 0755 "$(realpath "$file")" "$root$file"; done
}

settings() {
  install -D -m 0644 packaging/rabbitmq.conf "$root/etc/warren/rabbitmq.conf"
  printf '\n## Added for the image: what is published is decided by `docker run -p`.\nprometheus.tcp.ip = 0.0.0.0\n' \
    >>"$root/etc/warren/rabbitmq.conf"
  printf 'root:x:0:0:root:/:/sbin/nologin\nwarren:x:%s:%s:warren:/var/lib/warren:/sbin/nologin\n' $ID $ID >"$root/etc/passwd"
  printf 'root:x:0:\nwarren:x:%s:\n' $ID >"$root/etc/group"
  install -D -m 0644 LICENSE "$root/usr/share/doc/warren/copyright"
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
  cp packaging/Dockerfile "$OUT/Dockerfile"
}

builder() {
  local one
  for one in ${BUILDER:-docker podman buildah}; do
    if command -v "$one" >/dev/null && "$one" info >/dev/null 2>&1; then echo "$one"; return; fi
  done
}

binary
libraries
settings
archive
echo "made in $OUT: Dockerfile, root.tar ($(du -h --apparent-size "$OUT/root.tar" | cut -f1))"
with=$(builder)
if [ -n "$with" ]; then
  "$with" build -t "$IMAGE" "$OUT"
  echo "image $IMAGE made by $with: $with run -d -p 5672:5672 -p 15672:15672 -v warren:/var/lib/warren $IMAGE"
else
  echo "no docker, podman or buildah answers here: build the image with \`docker build -t $IMAGE $OUT\` where one does"
fi
