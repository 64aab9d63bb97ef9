#!/bin/bash
# What `make release` makes, as its users meet it: checked, unpacked, started. `make soak` calls it.
#
#   testing/packages/release.sh [FOLDER]      FOLDER of a release that is there already; without one it is made
#
# Needs lintian, rpm, skopeo and minisign (Debian: apt-get install lintian rpm skopeo minisign), root for the image's own file tree.
# The program of the other architecture is started where qemu's user emulation is (Debian: apt-get install qemu-user-static).
# Opens ports on the loopback only, leaves no process behind.
set -euo pipefail
cd "$(dirname "$0")/../.."
for tool in lintian rpm rpmbuild skopeo minisign; do
  command -v "$tool" >/dev/null || { echo "missing: $tool (apt-get install lintian rpm skopeo minisign)" >&2; exit 2; }
done
work=$(mktemp -d)
finish() { [ -z "${server:-}" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }; rm -rf "$work"; }
trap finish EXIT
die() { echo "release.sh: $*" >&2; exit 1; }
say() { echo "ok    $*"; }
one() { # the one file of a pattern
  local found=("$made"/$1)
  [ ${#found[@]} = 1 ] && [ -f "${found[0]}" ] || die "not one file $1: ${found[*]}"
  echo "${found[0]}"
}

made=${1:-}
if [ -z "$made" ]; then
  made=$work/made
  printf '\n\n' | minisign -G -f -p "$work/key.pub" -s "$work/key" >/dev/null 2>&1 || die "no key"
  MINISIGN_KEY=$work/key packaging/release.sh "$made" </dev/null >"$work/log" 2>&1 || { tail -20 "$work/log"; die "no release"; }
fi
(cd "$made" && sha256sum --quiet --check SHA256SUMS) || die "checksums"
if [ -f "$work/key.pub" ]; then minisign -Vq -p "$work/key.pub" -m "$made/SHA256SUMS" -x "$made/SHA256SUMS.minisig" || die "signature"; fi
say "$(wc -l <"$made/SHA256SUMS") files fit their checksums"

here=$(uname -m)
here_deb=$(dpkg --print-architecture)
tarball=$(one "*-$here-linux.tar.gz")
deb=$(one "warren_*_$here_deb.deb")
dbgsym=$(one "warren-dbgsym_*_$here_deb.deb")
rpm=$(one "warren-[0-9]*.$here.rpm")
debuginfo=$(one "warren-debuginfo-*.$here.rpm")
image=$(one "*-oci-$here_deb.tar")

# Starts a program, asks it by its commands, publishes and consumes through it: FOLDER [EMULATOR]
serves() {
  local folder=$1 emulator=${2:-} uri
  rm -rf "$work/data"
  $emulator "$folder/warren" server --listen 127.0.0.1:0 --management-listen 127.0.0.1:0 --data-dir "$work/data" \
    --config <(echo 'prometheus.tcp.listener = none') >"$work/server.log" 2>&1 &
  server=$!
  for _ in $(seq 300); do grep -q '^ready' "$work/server.log" && break; sleep 0.1; done
  $emulator "$folder/warren" ctl --data-dir "$work/data" -q ping >/dev/null || { cat "$work/server.log"; die "no answer"; }
  uri=$(sed -n 's/^ready amqp=[^:]*\(:[0-9]*\).*/amqp:\/\/guest:guest@localhost\1/p' "$work/server.log")
  $emulator "$folder/warren" perf --uri "$uri" -x 1 -y 1 -C 1000 -D 1000 >"$work/perf.log" 2>&1 || { tail -3 "$work/perf.log"; die "1000 messages do not go through"; }
  kill "$server"; wait "$server"; server=
}

# Tarball: a program that needs no library, documents whose links work. Names of hosts are found without libraries, too.
mkdir "$work/tar"
tar -xzf "$tarball" -C "$work/tar" --strip-components 1
! readelf -d "$work/tar/bin/warren" | grep NEEDED >/dev/null || die "the program of the tarball needs libraries"
python3 testing/packages/links.py "$work/tar/share/doc/warren"
serves "$work/tar/bin"
"$work/tar/bin/rabbitmqctl" version >/dev/null || die "it is not known as rabbitmqctl"
say "the tarball's program is static, starts, answers commands, finds hosts by name, passes messages on; links of its documents work"

# The other architecture: the same files, programs that are of it, started in an emulator.
for foreign in "$made"/*-linux.tar.gz; do
  [ "$foreign" != "$tarball" ] || continue
  arch=$(sed 's/.*-\([^-]*\)-linux.tar.gz/\1/' <<<"$foreign")
  name=$(sed -e 's/x86_64/amd64/' -e 's/aarch64/arm64/' <<<"$arch")
  mkdir "$work/foreign" "$work/foreigndeb"
  tar -xzf "$foreign" -C "$work/foreign" --strip-components 1
  dpkg-deb -x "$(one "warren_*_$name.deb")" "$work/foreigndeb"
  [ "$(dpkg-deb -f "$(one "warren_*_$name.deb")" Architecture)" = "$name" ] || die "the Debian package is not of $name"
  [ "$(rpm -qp --qf '%{ARCH}' "$(one "warren-[0-9]*.$arch.rpm")")" = "$arch" ] || die "the RPM package is not of $arch"
  skopeo inspect --config "oci-archive:$(one "*-oci-$name.tar")" | grep "\"architecture\": *\"$name\"" >/dev/null || die "the image is not of $name"
  for program in "$work/foreign/bin/warren" "$work/foreigndeb/usr/bin/warren"; do
    readelf -h "$program" | tr 'A-Z-' 'a-z_' | grep "machine: .*$arch" >/dev/null || die "$program is not of $arch"
  done
  ! readelf -d "$work/foreign/bin/warren" | grep NEEDED >/dev/null || die "the program for $arch needs libraries"
  if command -v "qemu-$arch-static" >/dev/null; then
    serves "$work/foreign/bin" "qemu-$arch-static"
    say "packages and image for $arch are of $arch; in an emulator the program starts and passes messages on"
  else
    say "packages and image for $arch are of $arch; the program is not started: no qemu-$arch-static here"
  fi
  rm -r "$work/foreign" "$work/foreigndeb"
done

# Debian packages.
lintian --fail-on error "$deb" "$dbgsym" >"$work/lintian" 2>&1 || { cat "$work/lintian"; die "lintian"; }
dpkg-deb -x "$deb" "$work/deb"
dpkg-deb -x "$dbgsym" "$work/deb"
id=$(readelf -n "$work/deb/usr/bin/warren" | sed -n 's/.*Build ID: *//p')
[ -s "$work/deb/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug" ] || die "the debug symbols are not of this program"
python3 testing/packages/links.py "$work/deb/usr/share/doc/warren"
for page in warren warren-server warren-ctl rabbitmqctl; do
  [ -e "$work/deb/usr/share/man/man1/$page.1.gz" ] || die "no man page $page"
done
MANROFFSEQ='' man --warnings -l "$work/deb/usr/share/man/man1/warren-server.1.gz" 2>"$work/man" | grep -- --config-dir >/dev/null || die "man page of the server"
[ ! -s "$work/man" ] || { cat "$work/man"; die "man page"; }
say "lintian finds no error; man pages, debug symbols and links of the Debian packages are in order"

# RPM packages.
for file in "$rpm" "$debuginfo"; do rpm -qp --qf '%{NAME} %{VERSION} %{LICENSE} %{PACKAGER}\n' "$file"; done
rpm -qpl "$rpm" | grep -x /usr/share/man/man1/warren-ctl.1.gz >/dev/null || die "no man page in the rpm"
rpm --root "$work/rpmroot" --dbpath /db -ivh --nodeps --noscripts --excludedocs "$rpm" >"$work/rpm.log" 2>&1 || { cat "$work/rpm.log"; die "the rpm does not install"; }
"$work/rpmroot/usr/bin/warren" --version >/dev/null || die "the program of the rpm does not run"
say "the RPM packages install, their program runs"

# Image: unpacked by another tool, started in its own file tree as its own user with its own environment.
skopeo inspect --config "oci-archive:$image" >"$work/config.json"
skopeo copy -q "oci-archive:$image" "dir:$work/image"
mkdir "$work/root"
python3 - "$work" <<'PYTHON'
import json, sys, tarfile, pathlib
work = pathlib.Path(sys.argv[1])
layer = json.loads((work / "image/manifest.json").read_text())["layers"][0]["digest"].split(":")[1]
tarfile.open(work / "image" / layer).extractall(work / "root")
settings = json.loads((work / "config.json").read_text())["config"]
assert settings["User"] == "65532:65532" and settings["Labels"]["org.opencontainers.image.version"], settings
(work / "environment").write_text("\n".join(settings["Env"]))
PYTHON
mapfile -t environment <"$work/environment"
python3 testing/packages/chroot.py "$work/root" "${environment[@]}" WARREN_LISTEN=127.0.0.1:0 WARREN_MANAGEMENT_LISTEN=127.0.0.1:0 \
  WARREN_ALL_INTERFACES=false RABBITMQ_DEFAULT_USER=shop RABBITMQ_DEFAULT_PASS=hare RABBITMQ_LOGS=- -- /usr/bin/warren server >"$work/image.log" 2>&1 &
server=$!
for _ in $(seq 100); do grep -q '^ready' "$work/image.log" && break; sleep 0.1; done
python3 testing/packages/chroot.py "$work/root" "${environment[@]}" -- /usr/bin/warren ctl -q --timeout 4 check_running >/dev/null || { cat "$work/image.log"; die "the image is not healthy"; }
python3 testing/packages/chroot.py "$work/root" "${environment[@]}" -- /usr/bin/rabbitmqctl -q authenticate_user shop hare >/dev/null || die "the first user is another"
[ "$(ps -o uid= -p "$server" | tr -d ' ')" = 65532 ] || die "it runs as another user"
kill "$server"; wait "$server" || die "SIGTERM ends it with $?"
server=
[ -z "$(find "$work/root" -newer "$work/environment" -type f ! -path "$work/root/var/lib/warren/*")" ] || die "it writes outside its volume"
say "the image starts in its own tree as 65532, is healthy, has the user of the variables, ends on SIGTERM"
