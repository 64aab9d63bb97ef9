#!/bin/bash
# Makes the release tarball and the Debian package from a built binary, and says what it made.
#
#   packaging/build.sh [OUT]          OUT defaults to target/package
#   WARREN_BIN=PATH                   the binary (default: target/release/warren)
#   WARREN_VERSION=1.2.3              instead of the workspace's version, with ~git... unless the commit has the tag v1.2.3
#
# Needs: tar, gzip, sha256sum, binutils; dpkg-deb for the Debian package (left out without it). The same commit and binary
# give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."

TARGET=${CARGO_TARGET_DIR:-target}
BIN=${WARREN_BIN:-$TARGET/release/warren}
OUT=${1:-$TARGET/package}
NAMES="rabbitmqctl rabbitmq-diagnostics rabbitmq-queues rabbitmq-upgrade rabbitmq-plugins rabbitmq-streams"

[ -x "$BIN" ] || { echo "no binary $BIN: run \`make build\`, or say which with WARREN_BIN" >&2; exit 1; }

version() {
  local plain
  plain=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
  if git describe --exact-match --tags --match "v$plain" >/dev/null 2>&1; then
    echo "$plain"
  else
    echo "$plain~git$(git log -1 --format=%cd.%h --date=format:%Y%m%d --abbrev=8 2>/dev/null || date +%Y%m%d)"
  fi
}

VERSION=${WARREN_VERSION:-$(version)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
umask 022
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
mkdir -p "$OUT"

# The binary under its names, without debug information; symbols stay, flame graphs need them.
put_binary() { # FOLDER
  local name
  install -D -m 0755 "$BIN" "$1/warren"
  strip --strip-debug "$1/warren"
  for name in $NAMES; do ln -s warren "$1/$name"; done
}

put_completions() { # FOLDER, with the places that shells look in
  local from=apps/warren/src/ctl/completions name
  install -D -m 0644 $from/warren.bash "$1/bash-completion/completions/warren"
  for name in $NAMES; do ln -s warren "$1/bash-completion/completions/$name"; done
  install -D -m 0644 $from/warren.zsh "$1/zsh/vendor-completions/_warren"
  install -D -m 0644 $from/warren.fish "$1/fish/vendor_completions.d/warren.fish"
  for name in $NAMES; do ln -s warren.fish "$1/fish/vendor_completions.d/$name.fish"; done   # fish looks for the name that is typed
}

put_documents() { # FOLDER
  install -d "$1"
  install -m 0644 README.md CHANGELOG.md LICENSE docs/*.md "$1"
}

tarball() {
  local name root
  name=warren-$VERSION-$(uname -m)-linux
  root=$WORK/tar/$name
  put_binary "$root/bin"
  put_completions "$root/share"
  put_documents "$root/share/doc/warren"
  install -D -m 0644 packaging/rabbitmq.conf "$root/etc/warren/rabbitmq.conf"
  install -D -m 0644 packaging/warren.service "$root/lib/systemd/system/warren.service"
  install -D -m 0644 packaging/sysusers.conf "$root/lib/sysusers.d/warren.conf"
  tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$WORK/tar" "$name" |
    gzip -n -9 >"$OUT/$name.tar.gz"
  MADE+=("$name.tar.gz")
}

# The newest glibc whose symbols the binary asks for.
glibc() { objdump -T "$BIN" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -1; }

debian() {
  local root=$WORK/deb architecture file
  architecture=$(dpkg --print-architecture)
  put_binary "$root/usr/bin"
  put_completions "$root/usr/share"
  put_documents "$root/usr/share/doc/warren"
  install -m 0644 LICENSE "$root/usr/share/doc/warren/copyright"
  install -D -m 0644 packaging/rabbitmq.conf "$root/etc/warren/rabbitmq.conf"
  install -D -m 0644 packaging/warren.service "$root/usr/lib/systemd/system/warren.service"
  install -D -m 0644 packaging/sysusers.conf "$root/usr/lib/sysusers.d/warren.conf"
  (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$WORK/md5sums"
  install -d "$root/DEBIAN"
  install -m 0644 "$WORK/md5sums" "$root/DEBIAN/md5sums"
  echo /etc/warren/rabbitmq.conf >"$root/DEBIAN/conffiles"
  sed -e "s/@VERSION@/$VERSION/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@GLIBC@/$(glibc)/" \
    -e "s/@KIB@/$(du -sk --apparent-size "$root/usr" | cut -f1)/" packaging/debian/control >"$root/DEBIAN/control"
  for file in postinst prerm postrm; do install -m 0755 packaging/debian/$file "$root/DEBIAN/$file"; done
  dpkg-deb --root-owner-group -Zxz --build "$root" "$OUT/warren_${VERSION}_$architecture.deb" >/dev/null
  MADE+=("warren_${VERSION}_$architecture.deb")
}

MADE=()
tarball
if command -v dpkg-deb >/dev/null; then debian; else echo "no dpkg-deb here: no Debian package"; fi
(cd "$OUT" && sha256sum "${MADE[@]}" >SHA256SUMS)
echo "made in $OUT:"
(cd "$OUT" && du -h --apparent-size "${MADE[@]}" SHA256SUMS | sed 's/^/  /')
