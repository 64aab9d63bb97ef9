#!/bin/bash
# Makes the release tarball, the Debian packages and the RPM packages from a built binary, and says what it made.
#
#   packaging/build.sh [OUT]          OUT defaults to target/package
#   WARREN_BIN=PATH                   the binary (default: target/release/warren)
#   STATIC_BIN=PATH                   a statically linked one for the tarball and the RPM packages (default: WARREN_BIN)
#   ARCH=aarch64                      the architecture of the binaries (default: this machine's)
#   HELP_BIN=PATH                     a binary that runs here and tells its help for the man pages (default: WARREN_BIN)
#   WARREN_VERSION=1.2.3              instead of the workspace's version, with ~git... unless the commit has the tag v1.2.3
#   MAINTAINER="Name <address>"       who answers for the packages (default: the last commit's author)
#
# Needs: tar, gzip, xz, sha256sum, binutils for ARCH, python3; dpkg-deb for the Debian packages and rpmbuild for the RPM packages (each left
# out without it). The same commit and binary give the same bytes, except for the RPM packages' host name.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/common.sh

BIN=${WARREN_BIN:-$TARGET/release/warren}
HELP_BIN=${HELP_BIN:-$BIN}
STATIC_BIN=${STATIC_BIN:-$BIN}
OUT=${1:-$TARGET/package}
MAINTAINER=${MAINTAINER:-$(git log -1 --format='%an <%ae>')}

[ -x "$BIN" ] || { echo "no binary $BIN: run \`make build\`, or say which with WARREN_BIN" >&2; exit 1; }
umask 022
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
mkdir -p "$OUT"

# The files of every package, at the places where distributions keep it: FOLDER BINARY. The binary has no symbols; they go to
# FOLDER.debug, where profiles and debuggers find them by the number that the linker gave.
system() {
  local root=$1 id name
  id=$(build_id "$2")
  install -D -m 0755 "$2" "$root/usr/bin/warren"
  "${TOOLS}strip" --strip-all "$root/usr/bin/warren"
  links "$root/usr/bin"
  install -d "$root.debug/usr/lib/debug/.build-id/${id:0:2}"
  "${TOOLS}objcopy" --only-keep-debug "$2" "$root.debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
  chmod 0644 "$root.debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
  completions "$root/usr/share"
  documents "$root/usr/share/doc/warren"
  python3 packaging/man.py "$HELP_BIN" "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)" "$root/usr/share/man/man1"
  gzip -n -9 "$root"/usr/share/man/man1/*
  for name in $NAMES; do ln -s warren-ctl.1.gz "$root/usr/share/man/man1/$name.1.gz"; done
  install -D -m 0644 packaging/rabbitmq.conf "$root/etc/warren/rabbitmq.conf"
  install -D -m 0644 packaging/warren.service "$root/usr/lib/systemd/system/warren.service"
  install -D -m 0644 packaging/sysusers.conf "$root/usr/lib/sysusers.d/warren.conf"
}

build_id() { readelf -n "$1" | sed -n 's/.*Build ID: *//p' | head -1; }

completions() { # FOLDER, with the places that shells look in
  local from=apps/warren/src/ctl/completions name
  install -D -m 0644 $from/warren.bash "$1/bash-completion/completions/warren"
  for name in $NAMES; do ln -s warren "$1/bash-completion/completions/$name"; done
  install -D -m 0644 $from/warren.zsh "$1/zsh/vendor-completions/_warren"
  install -D -m 0644 $from/warren.fish "$1/fish/vendor_completions.d/warren.fish"
  for name in $NAMES; do ln -s warren.fish "$1/fish/vendor_completions.d/$name.fish"; done   # fish looks for the name that is typed
}

# The documents as they lie in the repository, so that the links between them work.
documents() { # FOLDER
  local file
  git ls-files README.md CHANGELOG.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md LICENSE docs \
    packaging/compose packaging/helm packaging/grafana packaging/prometheus packaging/warren.service | while read -r file; do
    install -D -m 0644 "$file" "$1/$file"
  done
}

# A folder for those who install nothing: symbols stay in the binary, so that profiles have names.
tarball() {
  local name=warren-$VERSION-$ARCH-linux root
  root=$WORK/tar/$name
  install -D -m 0755 "$STATIC_BIN" "$root/bin/warren"
  "${TOOLS}strip" --strip-debug "$root/bin/warren"
  links "$root/bin"
  completions "$root/share"
  documents "$root/share/doc/warren"
  cp -a "$WORK/system/usr/share/man" "$root/share/"
  install -D -m 0644 packaging/rabbitmq.conf "$root/etc/warren/rabbitmq.conf"
  install -D -m 0644 packaging/warren.service "$root/lib/systemd/system/warren.service"
  install -D -m 0644 packaging/sysusers.conf "$root/lib/sysusers.d/warren.conf"
  tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$WORK/tar" "$name" |
    gzip -n -9 >"$OUT/$name.tar.gz"
  MADE+=("$name.tar.gz")
}

# The newest glibc whose symbols the binary asks for.
glibc() { "${TOOLS}objdump" -T "$BIN" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -1; }

debian() {
  local root=$WORK/system documents=$WORK/system/usr/share/doc/warren
  sed -e "s/@MAINTAINER@/$MAINTAINER/" packaging/debian/copyright >"$documents/copyright"
  printf 'warren (%s-1) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' \
    "$VERSION" "$MAINTAINER" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -n -9 >"$documents/changelog.Debian.gz"
  install -D -m 0644 packaging/debian/lintian-overrides "$root/usr/share/lintian/overrides/warren"
  install -d "$root/DEBIAN"
  printf '/etc/warren/rabbitmq.conf\n' >"$root/DEBIAN/conffiles"
  one_deb "$root" warren packaging/debian/control "libc6 (>= $(glibc)), libgcc-s1"
  install -d "$root.debug/usr/share/doc"
  ln -sfn warren "$root.debug/usr/share/doc/warren-dbgsym"
  install -d "$root.debug/DEBIAN"
  one_deb "$root.debug" warren-dbgsym packaging/debian/control.dbgsym "" "$(build_id "$BIN")"
  rm -r "$documents/copyright" "$documents/changelog.Debian.gz" "$root/usr/share/lintian"
}

one_deb() { # FOLDER PACKAGE CONTROL DEPENDS [BUILD-ID]
  local root=$1 architecture=$DEB_ARCH file
  (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
  sed -e "s/@VERSION@/$VERSION-1/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@DEPENDS@/$4/" -e "s/@MAINTAINER@/$MAINTAINER/" \
    -e "s/@BUILD_ID@/${5:-}/" -e "s/@KIB@/$(du -sk --apparent-size "$root/usr" | cut -f1)/" "$3" >"$root/DEBIAN/control"
  chmod 0644 "$root/DEBIAN/"*
  [ "$2" != warren ] || for file in postinst prerm postrm; do install -m 0755 packaging/debian/$file "$root/DEBIAN/$file"; done
  # Symbols are many: a light compression does.
  dpkg-deb --root-owner-group -Zxz "-z$([ "$2" = warren ] && echo 6 || echo 1)" --build "$root" "$OUT/${2}_$VERSION-1_$architecture.deb" >/dev/null
  rm -r "$root/DEBIAN"
  MADE+=("${2}_$VERSION-1_$architecture.deb")
}

# RPM packages of the static binary: they fit every distribution of the architecture.
rpm_packages() {
  system "$WORK/rpm" "$STATIC_BIN"
  rm -r "$WORK/rpm/usr/share/zsh/vendor-completions"
  install -D -m 0644 apps/warren/src/ctl/completions/warren.zsh "$WORK/rpm/usr/share/zsh/site-functions/_warren"
  cp -a "$WORK/rpm.debug/." "$WORK/rpm/"
  sed -e "s/@VERSION@/$VERSION/" -e "s|@ROOT@|$WORK/rpm|" -e "s/@MAINTAINER@/$MAINTAINER/" \
    -e "s/@DATE@/$(LC_ALL=C date -u -d "@$SOURCE_DATE_EPOCH" '+%a %b %d %Y')/" packaging/rpm/warren.spec >"$WORK/warren.spec"
  rpmbuild -bb --quiet --target "$ARCH" --define "_topdir $WORK/rpmbuild" --define "_rpmdir $WORK/rpms" --define "_build_id_links none" \
    --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" --define "_buildhost warren" \
    "$WORK/warren.spec" >"$WORK/rpmbuild.log" 2>&1 || { cat "$WORK/rpmbuild.log" >&2; exit 1; }
  local file
  for file in "$WORK"/rpms/*/*.rpm; do
    mv "$file" "$OUT/"
    MADE+=("${file##*/}")
  done
}

MADE=()
system "$WORK/system" "$BIN"
tarball
if command -v dpkg-deb >/dev/null; then debian; else echo "no dpkg-deb here: no Debian packages"; fi
if command -v rpmbuild >/dev/null; then rpm_packages; else echo "no rpmbuild here (Debian: apt-get install rpm): no RPM packages"; fi
(cd "$OUT" && sha256sum "${MADE[@]}" >SHA256SUMS)
echo "made in $OUT:"
(cd "$OUT" && du -h --apparent-size "${MADE[@]}" SHA256SUMS | sed 's/^/  /')
