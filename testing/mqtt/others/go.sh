#!/usr/bin/env bash
# go.sh: a client that brings its own tests, against a Warren of its own.
#
#   WARREN_BIN=PATH CACHE=FOLDER testing/mqtt/others/go.sh
#
# eclipse/paho.mqtt.golang runs its whole suite but for Test_OverLengthTopic: topics here have at most 255 bytes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; wait; chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
printf 'mqtt.listeners.tcp.1 = 127.0.0.1:0\nprometheus.tcp.listener = none\n' > "$folder/warren.conf"
"$WARREN_BIN" server --listen 127.0.0.1:0 --management-listen 127.0.0.1:0 --config "$folder/warren.conf" --data-dir "$folder/data" > "$folder/log" 2>&1 &
server=$!
port=
for _ in $(seq 100); do
  port=$(sed -n 's/^ready .* mqtt=127.0.0.1:\([0-9]*\).*/\1/p' "$folder/log")
  [ -z "$port" ] || break
  sleep 0.1
done
[ -n "$port" ] || { cat "$folder/log"; exit 1; }

export GOMODCACHE=$CACHE/go/mod GOCACHE=$CACHE/go/build GOFLAGS="-mod=mod -modcacherw" GOTOOLCHAIN=local
module=github.com/eclipse/paho.mqtt.golang@v1.5.1
mkdir "$folder/go"
(cd "$folder/go" && go mod init suite && go get "$module") > "$folder/go.log" 2>&1 || { cat "$folder/go.log"; exit 1; }
cp -r "$GOMODCACHE/$module" "$folder/paho"
chmod -R u+w "$folder/paho"
sed -i "s/:1883\"/:$port\"/" "$folder/paho/fvt_test.go"
(cd "$folder/paho" && go test -count=1 -timeout 180s -skip OverLengthTopic .)
