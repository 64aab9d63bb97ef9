#!/usr/bin/env bash
# setup.sh: brings what the test suites need into .cache/ of this checkout, from the package registries and nowhere else.
#
#   testing/setup.sh [python] [node] [java] [go] [published] [applications] [ui] [rabbitmqadmin] [monitors] [valgrind] [packages] [amqp10] [mqtt] [stomp]     (default: all of them)
#
# Each part is stamped with a hash of the files that define it, so a second call returns at once and a changed requirement
# reinstalls only its part. Needs python3 with venv, node with npm, java with mvn, go. Where one is missing and we are root on a
# Debian, it is installed with apt; otherwise the message says what to install.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
cache=$root/.cache
stamps=$cache/stamps
mkdir -p "$stamps" "$cache/test-logs"

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

hash_of() { # of the contents of some files
  cat "$@" | sha256sum | cut -d' ' -f1
}

apt_install() { # a Debian package, if we may; otherwise nothing happens and the caller says what is missing
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 0
  say "installing Debian's $1"
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$1"; } \
    > "$cache/test-logs/setup-apt-$1.log" 2>&1 || die "could not install $1: see .cache/test-logs/setup-apt-$1.log"
}

need() { # a command, and the Debian package that has it
  command -v "$1" >/dev/null 2>&1 || apt_install "$2"
  command -v "$1" >/dev/null 2>&1 || die "'$1' is needed and was not found: install it (Debian: apt-get install $2)"
}

part() { # NAME KEY FUNCTION: run FUNCTION unless the stamp of NAME says that it was done for KEY; the stamp is written last
  local name=$1 key=$2 function=$3 log=$cache/test-logs/setup-$1.log started=$SECONDS
  [ "$(cat "$stamps/$name" 2>/dev/null || true)" != "$key" ] || { say "$name: present"; return 0; }
  say "$name: installing (log: .cache/test-logs/setup-$name.log)"
  rm -f "$stamps/$name"
  local attempt
  for attempt in 1 2 3; do   # a registry may be briefly out of reach
    if ( set -e; "$function" ) > "$log" 2>&1; then
      echo "$key" > "$stamps/$name"
      say "$name: done in $((SECONDS - started)) s"
      return 0
    fi
    [ "$attempt" = 3 ] || { say "$name: attempt $attempt failed, trying again"; sleep $((attempt * 3)); }
  done
  tail -n 25 "$log" >&2
  die "$name: failed (whole log: $log)"
}

python_requirements=("$root/testing/clients/python/requirements.txt")
[ ! -f "$root/testing/conformance/requirements.txt" ] || python_requirements+=("$root/testing/conformance/requirements.txt")

install_python() {
  rm -rf "$cache/venv"
  python3 -m venv "$cache/venv"
  local args=() file
  for file in "${python_requirements[@]}"; do args+=(-r "$file"); done
  "$cache/venv/bin/python" -m pip install --disable-pip-version-check --no-input "${args[@]}"
}

install_node() { # what the lock file says, no scripts; the tests are run with NODE_PATH=.cache/node/node_modules
  mkdir -p "$cache/node"
  cp "$root/testing/clients/node/package.json" "$root/testing/clients/node/package-lock.json" "$cache/node/"
  (cd "$cache/node" && npm ci --no-audit --no-fund --ignore-scripts)
}

install_java() {
  rm -rf "$cache/java"
  mkdir -p "$cache/java"
  (cd "$root/testing/clients/java" && mvn -q -B dependency:copy-dependencies -DoutputDirectory="$cache/java")
  ls "$cache"/java/perf-test-*.jar
}

install_go() { # module cache and build cache lie in .cache/go; building the client here leaves only our tests to compile
  export GOMODCACHE=$cache/go/mod GOCACHE=$cache/go/build GOFLAGS="-mod=readonly -modcacherw" GOTOOLCHAIN=local
  cd "$root/testing/management/rabbithole" && go mod download && go build github.com/michaelklishin/rabbit-hole/v3
  cd "$root/testing/clients/go" && go mod download && go build github.com/rabbitmq/amqp091-go
}

install_amqp10() { # RabbitMQ's own clients for AMQP 1.0: a venv, jars and Go modules
  local from=$root/testing/amqp10/clients to=$cache/amqp10
  rm -rf "$to"
  mkdir -p "$to"
  python3 -m venv "$to/venv"
  "$to/venv/bin/python" -m pip install --disable-pip-version-check --no-input -r "$from/python/requirements.txt"
  (cd "$from/java" && mvn -q -B dependency:copy-dependencies -DoutputDirectory="$to/java")
  export GOMODCACHE=$cache/go/mod GOCACHE=$cache/go/build GOFLAGS="-mod=readonly -modcacherw" GOTOOLCHAIN=local
  cd "$from/go" && go mod download && go test -c -o "$to/go.test" .
}

install_published() { # the suites that clients publish: their source distributions, and venvs with the same versions
  local from=$root/testing/clients/published to=$cache/published name
  rm -rf "$to"
  mkdir -p "$to"
  python3 -m venv "$to/venv"
  "$to/venv/bin/python" -m pip install --disable-pip-version-check --no-input -r "$from/requirements.txt"
  python3 -m venv "$to/venv-aiorabbit"
  "$to/venv-aiorabbit/bin/python" -m pip install --disable-pip-version-check --no-input -r "$from/requirements-aiorabbit.txt"
  for name in amqp kombu amqpstorm aiorabbit; do
    "$to/venv/bin/python" -m pip download --disable-pip-version-check --no-input --no-deps --no-binary :all: --dest "$to" \
      "$(cat "$from"/requirements*.txt | grep "^$name==")"
  done
  for name in "$to"/*.tar.gz; do tar -xzf "$name" -C "$to"; done
  (export GOMODCACHE=$cache/go/mod GOTOOLCHAIN=local; cd "$cache"/go/mod/github.com/rabbitmq/amqp091-go@* && go mod download)
}

install_applications() { # what is written for RabbitMQ: source distributions and their Python, Node modules, jars, Go modules
  local from=$root/testing/clients/applications to=$cache/applications package
  rm -rf "$to"
  mkdir -p "$to/node"
  python3 -m venv "$to/venv"
  "$to/venv/bin/python" -m pip install --disable-pip-version-check --no-input -r "$from/requirements.txt"
  for package in celery kombu dramatiq oslo.messaging; do
    "$to/venv/bin/python" -m pip download --disable-pip-version-check --no-input --no-deps --no-binary :all: --dest "$to" \
      "$package==$(sed -n "s/^$package,\([^,]*\),PyPI,.*/\1/p" "$from/applications.csv")"
  done
  for package in "$to"/*.tar.gz; do tar -xzf "$package" -C "$to"; done
  cp "$from/package.json" "$from/package-lock.json" "$to/node/"
  (cd "$to/node" && npm ci --no-audit --no-fund --ignore-scripts)
  (cd "$from/spring" && mvn -q -B dependency:copy-dependencies -DoutputDirectory="$to/spring")
  export GOMODCACHE=$cache/go/mod GOCACHE=$cache/go/build GOFLAGS=-modcacherw GOTOOLCHAIN=local
  for package in $(sed -n 's/^[^,]*,\([^,]*\),Go,\([^,]*\),.*/\2@\1/p' "$from/applications.csv"); do
    (cd "$(cd "$to" && go mod download -json "$package" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')" && go mod download)
  done
}

install_packages() { # a reader of YAML and mdBook, in a folder of their own; the modules of the chart's renderer
  rm -rf "$cache/packages"
  "$cache/venv/bin/python" -m pip install --disable-pip-version-check --no-input --target "$cache/packages/python" -r "$root/testing/packages/requirements.txt"
  export GOMODCACHE=$cache/go/mod GOCACHE=$cache/go/build GOFLAGS="-mod=readonly -modcacherw" GOTOOLCHAIN=local
  cd "$root/testing/packages/helm" && go mod download && go build -o /dev/null .
}

install_rabbitmqadmin() { # RabbitMQ's own tool, as its users install it; unoptimised, which takes a third of the time to compile
  local to=$cache/rabbitmqadmin
  rm -rf "$to"
  CARGO_TARGET_DIR=$to/target CARGO_PROFILE_DEV_DEBUG=0 \
    cargo install rabbitmqadmin --version "$rabbitmqadmin_version" --locked --debug --root "$to"
  rm -rf "$to/target"
}
rabbitmqadmin_version=2.35.0

install_ui() { # what the web UI is built with, and what drives a browser
  mkdir -p "$cache/ui"
  cp "$root/ui/package.json" "$root/ui/package-lock.json" "$cache/ui/"
  (cd "$cache/ui" && npm ci --no-audit --no-fund --ignore-scripts)
}

want() { [ "${#parts[@]}" = 0 ] && return 0; local p; for p in "${parts[@]}"; do [ "$p" = "$1" ] && return 0; done; return 1; }

parts=("$@")
for p in "${parts[@]}"; do
  case $p in python | node | java | go | published | applications | ui | rabbitmqadmin | monitors | valgrind | packages | amqp10 | mqtt | stomp) ;;
    *) die "what is '$p'? (python, node, java, go, published, applications, ui, rabbitmqadmin, monitors, valgrind, packages, amqp10, mqtt, stomp)" ;;
  esac
done

install_mqtt() { # MQTT.js
  mkdir -p "$cache/mqtt"
  cp "$root/testing/mqtt/others/package.json" "$root/testing/mqtt/others/package-lock.json" "$cache/mqtt/"
  (cd "$cache/mqtt" && npm ci --no-audit --no-fund --ignore-scripts)
}

install_stomp() { # stomp.py, in a venv; stompjs and webstomp-client
  rm -rf "$cache/stomp"
  python3 -m venv "$cache/stomp/venv"
  "$cache/stomp/venv/bin/python" -m pip install --disable-pip-version-check --no-input -r "$root/testing/stomp/requirements.txt"
  cp "$root/testing/stomp/others/package.json" "$root/testing/stomp/others/package-lock.json" "$cache/stomp/"
  (cd "$cache/stomp" && npm ci --no-audit --no-fund --ignore-scripts)
}

if want python; then
  need python3 python3
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then   # Debian splits it off: without it a venv has no pip
    apt_install python3-venv
    python3 -c 'import ensurepip, venv' 2>/dev/null || die "python3 cannot make a venv: install it (Debian: apt-get install python3-venv)"
  fi
  part python "$(hash_of "${python_requirements[@]}" <(python3 --version))" install_python
fi
if want node; then
  need node nodejs
  need npm npm
  part node "$(hash_of testing/clients/node/package.json testing/clients/node/package-lock.json)" install_node
fi
if want mqtt; then
  need node nodejs
  need npm npm
  need mosquitto_pub mosquitto-clients
  part mqtt "$(hash_of testing/mqtt/others/package.json testing/mqtt/others/package-lock.json)" install_mqtt
fi
if want stomp; then
  need node nodejs
  need npm npm
  part stomp "$(hash_of testing/stomp/requirements.txt testing/stomp/others/package.json testing/stomp/others/package-lock.json <(python3 --version))" install_stomp
fi
if want java; then
  need java default-jre-headless
  need mvn maven
  part java "$(hash_of testing/clients/java/pom.xml)" install_java
fi
if want go; then
  need go golang-go
  part go "$(hash_of testing/clients/go/go.mod testing/clients/go/go.sum testing/management/rabbithole/go.sum <(go version))" install_go
fi
if want published; then
  part published "$(hash_of testing/clients/published/requirements*.txt testing/clients/go/go.mod <(python3 --version))" install_published
fi
if want amqp10; then
  need javac default-jdk-headless
  need mvn maven
  need go golang-go
  part amqp10 "$(hash_of testing/amqp10/clients/python/requirements.txt testing/amqp10/clients/java/pom.xml testing/amqp10/clients/go/* <(python3 --version) <(go version))" install_amqp10
fi
if want applications; then
  need go golang-go
  need npm npm
  need mvn maven
  need javac default-jdk-headless
  part applications "$(hash_of testing/clients/applications/{applications.csv,requirements.txt,package-lock.json,spring/pom.xml} <(python3 --version))" install_applications
fi
if want packages; then
  need go golang-go
  part packages "$(hash_of testing/packages/requirements.txt testing/packages/helm/go.sum <(python3 --version) <(go version))" install_packages
fi
if want rabbitmqadmin; then
  need cargo cargo
  part rabbitmqadmin "$rabbitmqadmin_version" install_rabbitmqadmin
fi
if want ui; then
  need node nodejs
  need npm npm
  [ -n "${CHROMIUM:-}" ] || need chromium chromium   # or CHROMIUM=... names another browser of that family
  part ui "$(hash_of ui/package.json ui/package-lock.json)" install_ui
fi
if want monitors; then   # only a few tests want them: without them they are skipped, and say so
  for pair in check_rabbitmq_overview:nagios-plugins-rabbitmq zsh:zsh fish:fish; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || ( apt_install "${pair##*:}" ) || say "without ${pair##*:}: its tests are skipped"
  done
fi
if want valgrind; then
  command -v valgrind >/dev/null 2>&1 || ( apt_install valgrind ) || true
  command -v valgrind >/dev/null 2>&1 || say "without valgrind: instructions are not counted"
fi
