# Common parts of the scripts of this folder: names, version, time. To be sourced in the root of the repository.
# shellcheck shell=bash

TARGET=${CARGO_TARGET_DIR:-target}
ARCH=${ARCH:-$(uname -m)}                                                    # of the programs that are packed
DEB_ARCH=$(sed -e 's/x86_64/amd64/' -e 's/aarch64/arm64/' <<<"$ARCH")       # as Debian and container images name it
TOOLS=                                                                       # what the names of binutils begin with
[ "$ARCH" = "$(uname -m)" ] || TOOLS=$ARCH-linux-gnu-
NAMES="rabbitmqctl rabbitmq-diagnostics rabbitmq-queues rabbitmq-upgrade rabbitmq-plugins rabbitmq-streams"

version() {
  local plain
  plain=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
  if git describe --exact-match --tags --match "v$plain" >/dev/null 2>&1; then
    echo "$plain"
  else
    echo "$plain~git$(git log -1 --format=%cd.%h --date=format:%Y%m%d --abbrev=8 2>/dev/null || date +%Y%m%d)"
  fi
}

links() { # FOLDER: the binary's other names
  local name
  for name in $NAMES; do ln -s warren "$1/$name"; done
}

VERSION=${WARREN_VERSION:-$(version)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
