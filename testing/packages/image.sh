#!/bin/bash
# The container image as its users meet it: made, loaded, run, healthy, used, stopped, its volume used again. `make test-image` calls it.
#
#   testing/packages/image.sh           WARREN_BIN as for packaging/image.sh; DOCKER=docker or podman
#
# Needs a docker or podman that runs containers, curl. Leaves no container, volume or image behind.
set -euo pipefail
cd "$(dirname "$0")/../.."
DOCKER=${DOCKER:-docker}
name=warren-test-$$
work=$(mktemp -d)

finish() {
  "$DOCKER" rm -f "$name" >/dev/null 2>&1 || true
  "$DOCKER" volume rm "$name" >/dev/null 2>&1 || true
  "$DOCKER" rmi "$name" >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap finish EXIT
die() { echo "image.sh: $*" >&2; "$DOCKER" logs "$name" 2>&1 | tail -5 >&2 || true; exit 1; }
say() { echo "ok    $*"; }

IMAGE=$name:latest LOADER=$DOCKER packaging/image.sh "$work/image" >"$work/build.log" 2>&1 || { cat "$work/build.log"; die "no image"; }
say "the image is made and loaded, $("$DOCKER" image inspect -f '{{.Size}}' "$name") bytes"

start() { # the ports of the host's loopback, which the server chooses
  "$DOCKER" run -d --name "$name" --network host -e WARREN_LISTEN=127.0.0.1:0 -e WARREN_MANAGEMENT_LISTEN=127.0.0.1:0 \
    -e RABBITMQ_DEFAULT_USER=shop -e RABBITMQ_DEFAULT_PASS=hare \
    -v "$name:/var/lib/warren" --read-only "$name" >/dev/null
  local try
  for try in $(seq 100); do
    url=$("$DOCKER" logs "$name" 2>/dev/null | sed -n 's/^ready .* http=\([^ ]*\).*/\1/p' | tail -1)
    [ -z "$url" ] || return 0
    sleep 0.1
  done
  die "not ready in ten seconds"
}
api() { curl -sS --fail-with-body -u shop:hare -H 'Content-Type: application/json' "$@"; }
stop() {
  "$DOCKER" stop "$name" >/dev/null
  local code
  code=$("$DOCKER" inspect -f '{{.State.ExitCode}}' "$name")
  [ "$code" = 0 ] || die "stopped with exit code $code"
  "$DOCKER" rm "$name" >/dev/null
}

start
[ "$("$DOCKER" exec "$name" rabbitmqctl -q ping)" = "Ping succeeded" ] || die "no ping inside"
"$DOCKER" exec "$name" warren ctl --quiet --timeout 4 check_running >/dev/null || die "not healthy"
! "$DOCKER" exec "$name" /bin/sh -c true >/dev/null 2>&1 || die "there is a shell in it"
case $("$DOCKER" inspect -f '{{.Config.User}}' "$name") in 65532*) ;; *) die "it runs as another user" ;; esac
say "it runs as 65532 with a read-only root, answers ctl, has no shell"

api -X PUT -d '{"durable":true}' "http://$url/api/queues/%2F/kept"
for count in 1 2 3; do
  api -X POST -d '{"properties":{"delivery_mode":2},"routing_key":"kept","payload":"x","payload_encoding":"string"}' \
    "http://$url/api/exchanges/%2F/amq.default/publish" | grep '"routed":true' >/dev/null || die "message $count was not routed"
done
stop
say "SIGTERM ends it with exit code 0"
start
[ "$("$DOCKER" exec "$name" rabbitmqctl -q -s list_queues name messages)" = "kept	3" ] || die "messages are missing"
"$DOCKER" kill -s KILL "$name" >/dev/null
"$DOCKER" rm "$name" >/dev/null
start
[ "$("$DOCKER" exec "$name" rabbitmqctl -q -s list_queues name messages)" = "kept	3" ] || die "messages are missing after a kill"
stop
say "the volume keeps the messages, over a stop and over a kill"
