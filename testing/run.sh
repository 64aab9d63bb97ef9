#!/usr/bin/env bash
# run.sh: the suites of things that we did not write (client libraries, PerfTest, Celery), the conformance suite and the crash
# tests, against a fresh Warren. `make test` calls it after the cargo tests.
#
#   testing/run.sh                              all steps, against a broker that it starts on a free port with a temporary folder
#   testing/run.sh STEP...                      only these: conformance ctl prometheus management events rabbitmqadmin python celery node java go rust published configured
#                                               reconnect hostile kill9 freeze delayed fulldisk datadir ui perf shovel instructions
#   AMQP_URL=... testing/run.sh --against-url [STEP...]
#                                               the steps that make sense against a broker that runs already (not ctl, configured,
#                                               prometheus, management, events, rabbitmqadmin, shovel, kill9, freeze, delayed, fulldisk, datadir, ui, perf,
#                                               instructions)
#   testing/run.sh --list                       names of the steps
#
# Environment:
#   WARREN_BIN      the binary to test (default: ${CARGO_TARGET_DIR:-target}/release/warren, which is built first)
#   BROKER_FLAVOR   with --against-url: warren (default), rabbitmq3 or rabbitmq4
#   BROKER_CTL      with --against-url: a rabbitmqctl-compatible command for the conformance suite
#   BROKER_PID      with --against-url: the broker's process, whose memory `hostile` then watches
#   PERFTEST_S      seconds per timed PerfTest case (default 3)
#   KILL9_CYCLES    lives of the broker in kill9 (default 12)
#   TEST_SEED       a number or `random`: other random work in management, kill9, freeze and delayed than every run has. A failure
#                   prints its seed. Of management it may be a range, 1-300
#   CHROMIUM        the browser of `ui` (default: chromium, which is installed by apt-get when it is missing and we are root)
#   UI_SHOTS        a folder for pictures of the web UI's pages
#   FLOOD_MB        MB of messages that `hostile` throws at a queue without consumer (default 512)
#
# Logs: .cache/test-logs/STEP.log. Ends with non-zero if anything failed. Leaves no process behind.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
cache=$root/.cache
logs=$cache/test-logs
seed=(${TEST_SEED:+--seed "$TEST_SEED"})
python=$cache/venv/bin/python
target=${CARGO_TARGET_DIR:-$root/target}
lane_one=(conformance ctl java published management events rabbitmqadmin shovel hostile ui)     # the two lanes run side by side, each in this order
lane_two=(prometheus python celery node go rust configured reconnect kill9 freeze delayed fulldisk datadir perf)
alone=(instructions)     # afterwards: it compiles, which would disturb the others
all=("${lane_one[@]}" "${lane_two[@]}" "${alone[@]}")

die() { printf 'run.sh: %s\n' "$*" >&2; exit 2; }
has() { local word=$1 w; shift; for w in "$@"; do [ "$w" = "$word" ] && return 0; done; return 1; }

against_url=
steps=()
for argument in "$@"; do
  case $argument in
    --against-url) against_url=1 ;;
    --list) printf '%s\n' "${all[@]}"; exit 0 ;;
    -h | --help) sed -n '2,25p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) has "$argument" "${all[@]}" || die "what is '$argument'? Steps: ${all[*]}"; steps+=("$argument") ;;
  esac
done
if [ -n "$against_url" ]; then
  [ -n "${AMQP_URL:-}" ] || die "--against-url needs AMQP_URL"
  [ "${#steps[@]}" -gt 0 ] || steps=(conformance java published python celery node go rust reconnect)
  for own in ctl prometheus configured management events rabbitmqadmin shovel kill9 freeze delayed fulldisk datadir ui perf instructions; do
    ! has "$own" "${steps[@]}" || die "$own starts brokers of its own: not with --against-url"
  done
  flavor=${BROKER_FLAVOR:-warren}
else
  [ "${#steps[@]}" -gt 0 ] || steps=("${all[@]}")
  if [ -z "${WARREN_BIN:-}" ]; then
    cargo build --quiet --release --package warren || die "the broker does not build"
    WARREN_BIN=$target/release/warren
  fi
  WARREN_BIN=$(realpath -m "$WARREN_BIN")
  [ -x "$WARREN_BIN" ] || die "no broker at $WARREN_BIN"
  flavor=warren
fi
export BROKER_FLAVOR=$flavor
export WARREN_MANAGEMENT_LISTEN=none   # the step that tests the HTTP API asks for a port of its own

work=$(mktemp -d "${TMPDIR:-/tmp}/warren-test.XXXXXX")
mark=warren-test-$$-$RANDOM        # in the environment of everything that is started here, so that it can be found again
mkdir -p "$logs" "$work/lanes"

ours() { # pids of what was started here and still runs
  local file pid
  for file in /proc/[0-9]*/environ; do
    pid=${file#/proc/}; pid=${pid%/environ}
    if { tr '\0' '\n' < "$file"; } 2>/dev/null | grep -qx "WARREN_TEST_RUN=$mark"; then echo "$pid"; fi
  done
}

cleanup() {
  trap - EXIT INT TERM
  local pids lane
  for lane in "${first:-}" "${second:-}"; do   # first the lanes, or they would go on to their next step
    [ -z "$lane" ] || kill -TERM "$lane" 2>/dev/null
  done
  "$python" testing/crash/broker.py stop --state "$work/broker.state" >/dev/null 2>&1
  "$python" testing/crash/broker.py stop --state "$work/second.state" >/dev/null 2>&1
  "$python" testing/crash/broker.py stop --state "$work/alarms.state" >/dev/null 2>&1
  "$python" testing/crash/broker.py stop --state "$work/ui.state" >/dev/null 2>&1
  pids=$(ours)
  # shellcheck disable=SC2086
  [ -z "$pids" ] || kill -KILL $pids 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
trap 'cleanup; exit 130' INT TERM

# ---- the steps: each runs with its output in its log, AMQP_URL set, in a process that carries the mark

step_conformance() {
  [ -f testing/conformance/conftest.py ] || { echo "testing/conformance is not in this checkout"; return 1; }
  local ctl=()
  [ -z "${CTL:-}" ] || ctl=("--ctl=$CTL")
  # with = and a folder: pytest looks for conftest.py, which has these options, beside whatever argument looks like a path
  "$python" testing/conformance/behaviours.py --check || return 1
  cd testing/conformance && "$python" -m pytest "--url=$AMQP_URL" "--flavor=$flavor" "${ctl[@]}" . || return 1
  # Alarms stop every publisher of the node, so they get a broker of their own, or they would disturb the other lane.
  [ -n "$against_url" ] || alarms_alone
}
alarms_alone() {
  local state=$work/alarms.state data=$work/alarms-data broker=$root/testing/crash/broker.py code=0
  "$python" "$broker" start --state "$state" --log "$logs/alarms-broker.log" -- \
    "$WARREN_BIN" server --config "$root/testing/conformance/warren.conf" --listen '127.0.0.1:{port}' --data-dir "$data" || return 1
  "$python" -m pytest -n 0 -m alone "--url=$("$python" "$broker" url --state "$state")" "--flavor=$flavor" \
    "--ctl=$WARREN_BIN ctl --data-dir $data" . || code=1
  "$python" "$broker" stop --state "$state" || code=1
  return $code
}
step_ctl() { WARREN_BIN=$WARREN_BIN "$python" -m pytest -c testing/ctl/pytest.ini testing/ctl; }
step_prometheus() { cd testing/prometheus && WARREN_BIN=$WARREN_BIN "$python" -m pytest .; }
step_management() { WARREN_BIN=$WARREN_BIN "$python" -m pytest -c testing/management/pytest.ini testing/management; }
step_events() { cd testing/events && WARREN_BIN=$WARREN_BIN "$python" -m pytest .; }
step_rabbitmqadmin() {
  RABBITMQADMIN=$cache/rabbitmqadmin/bin/rabbitmqadmin WARREN_BIN=$WARREN_BIN "$python" -m pytest -n 0 testing/clients/rabbitmqadmin
}
step_shovel() { cd testing/shovel && WARREN_BIN=$WARREN_BIN "$python" -m pytest -n 2 .; }
step_python() { cd testing/clients/python && "$python" -m pytest --ignore test_celery.py -k "not restart"; }
step_celery() { cd testing/clients/python && "$python" -m pytest test_celery.py -k "not restart"; }
step_node() { NODE_PATH=$cache/node/node_modules node --test --test-reporter=spec testing/clients/node/; }
step_java() { "$python" testing/clients/java/perftest.py --seconds "${PERFTEST_S:-3}" --log "$logs/perftest-output.log"; }
go_test() {
  export GOMODCACHE=$cache/go/mod GOCACHE=$cache/go/build GOFLAGS="-mod=readonly -modcacherw" GOTOOLCHAIN=local
  cd testing/clients/go && go test -count=1 -timeout 180s "$@" ./...
}
step_go() { go_test -skip Restart; }
cargo_test() { cargo test --quiet --package client-tests --test lapin -- "$@"; }
step_configured() { cd testing/configured && "$python" -m pytest "--warren=$WARREN_BIN" -n 2 .; }
step_published() { "$python" testing/clients/published/run.py --url "$AMQP_URL" --cache "$cache" --logs "$logs"; }
step_rust() { cargo_test --skip restart; }
step_reconnect() { # a broker of its own, because it is restarted under everybody: Warren itself, or a relay before the URL's broker
  local state=$work/second.state code=0
  if [ -n "$against_url" ]; then
    local place=${AMQP_URL##*@}
    place=${place%%/*}
    "$python" testing/crash/broker.py start --state "$state" --log "$logs/reconnect-broker.log" -- \
      "$python" "$root/testing/crash/broker.py" gate --port '{port}' --to "$place" || return 1
  else
    "$python" testing/crash/broker.py start --state "$state" --log "$logs/reconnect-broker.log" -- \
      "$WARREN_BIN" server --listen '127.0.0.1:{port}' --data-dir "$work/second-data" || return 1
  fi
  AMQP_URL=$("$python" testing/crash/broker.py url --state "$state")
  export AMQP_URL BROKER_RESTART="'$python' '$root/testing/crash/broker.py' restart --state '$state'"
  echo "== Python" && (cd testing/clients/python && "$python" -m pytest -k restart) || code=1
  echo "== Node" && NODE_PATH=$cache/node/node_modules node --test --test-reporter=spec --test-name-pattern restart testing/clients/node/ || code=1
  echo "== Go" && (go_test -run Restart) || code=1
  echo "== Rust" && cargo_test restart || code=1
  "$python" testing/crash/broker.py stop --state "$state" || code=1
  return $code
}
step_hostile() {
  if [ -n "$against_url" ]; then
    "$python" testing/crash/hostile.py --flood-mb "${FLOOD_MB:-512}" ${BROKER_PID:+--pid "$BROKER_PID"}
  else
    "$python" testing/crash/hostile.py --warren "$WARREN_BIN" --flood-mb "${FLOOD_MB:-512}"
  fi
}
step_kill9() {
  "$python" testing/crash/kill9.py --warren "$WARREN_BIN" --cycles "${KILL9_CYCLES:-12}" --power-cut "${seed[@]}" &&
    "$python" testing/crash/stuck.py --warren "$WARREN_BIN"
}
step_freeze() { "$python" testing/crash/freeze.py --warren "$WARREN_BIN" "${seed[@]}"; }
step_delayed() { "$python" testing/crash/delayed.py --warren "$WARREN_BIN" "${seed[@]}" && "$python" testing/crash/seen.py --warren "$WARREN_BIN"; }
step_fulldisk() { "$python" testing/crash/fulldisk.py --warren "$WARREN_BIN"; }
step_datadir() { "$python" testing/crash/datadir.py --warren "$WARREN_BIN" && "$python" testing/crash/oldfolders.py --warren "$WARREN_BIN"; }
step_perf() { "$python" testing/perf/check.py --warren "$WARREN_BIN" --url "$AMQP_URL"; }

step_instructions() { # one run each; what stages cost is within what two runs differ by
  command -v valgrind > /dev/null || { echo "SKIPPED: valgrind is not installed"; return 0; }
  ROUNDS=1 STAGE_INSTRUCTIONS_MAX=60 testing/bench/hot_path.sh
}

step_ui() { # a broker of its own: the test looks at all that it has
  UI_MODULES=$cache/ui/node_modules node ui/build/check.mjs || return 1
  local state=$work/ui.state log=$logs/ui-broker.log code=0
  "$python" testing/crash/broker.py start --state "$state" --log "$log" -- \
    "$WARREN_BIN" server --listen '127.0.0.1:{port}' --management-listen 127.0.0.1:0 --data-dir "$work/ui-data" || return 1
  AMQP_URL=$("$python" testing/crash/broker.py url --state "$state")
  MANAGEMENT_URL=http://$(sed -n 's/^ready .* http=\([^ ]*\).*/\1/p' "$log" | tail -n 1)
  CHROMIUM=${CHROMIUM:-$(command -v chromium)}
  export AMQP_URL MANAGEMENT_URL CHROMIUM CACHE=$cache
  node --test --test-reporter=spec testing/ui/ui.test.mjs || code=1
  "$python" testing/crash/broker.py stop --state "$state" || code=1
  return $code
}

run_step() { # NAME: one line on the screen, everything else in the log; a step may take ten minutes at most
  local name=$1 log=$logs/$1.log begin=$SECONDS code
  ( export WARREN_TEST_RUN=$mark; exec timeout --kill-after=10 600 "$BASH" "$work/step.sh" "$name" ) > "$log" 2>&1 < /dev/null
  code=$?
  if [ $code = 0 ]; then
    printf 'ok    %-12s %4d s   %s\n' "$name" $((SECONDS - begin)) "$(summary "$log")"
    echo "$name" >> "$work/passed"
  else
    printf 'FAIL  %-12s %4d s   exit code %d, .cache/test-logs/%s.log ends with:\n' "$name" $((SECONDS - begin)) $code "$name"
    tail -n 40 "$log" | sed 's/^/      | /'
    echo "$name" >> "$work/failed"
  fi
}

summary() { # the line in which a suite says how much it ran
  grep -E '([0-9]+ passed|^ℹ pass [0-9]|^test result: |^ok  ?	|confirmed messages, none lost|confirmed messages came|^SKIPPED)' "$1" | sed -E 's/^ℹ|=+//g; s/^ +//' | tail -n 1 | cut -c1-110
}

run_lane() { local name; for name in "$@"; do has "$name" "${steps[@]}" && run_step "$name"; done; return 0; }

{ # the steps run in processes of their own, so that the mark is in their environment from the beginning
  printf 'set -uo pipefail\ncd %q\n' "$root"
  declare -p root cache logs python target against_url flavor work seed
  [ -n "$against_url" ] || declare -p WARREN_BIN
  declare -f $(compgen -A function step_) alarms_alone go_test cargo_test
  echo 'step_"$1"'
} > "$work/step.sh"

begin=$SECONDS
need=(python)
for pair in node:node java:java management:java management:monitors ctl:monitors go:go published:go published:published ui:ui ui:node rabbitmqadmin:rabbitmqadmin instructions:valgrind; do has "${pair%%:*}" "${steps[@]}" && need+=("${pair##*:}"); done
if has reconnect "${steps[@]}"; then need+=(node go); fi
testing/setup.sh "${need[@]}" || exit 1

if [ -z "$against_url" ]; then
  WARREN_TEST_RUN=$mark "$python" testing/crash/broker.py start --state "$work/broker.state" --log "$logs/broker.log" -- \
    "$WARREN_BIN" server --config "$root/testing/conformance/warren.conf" --listen '127.0.0.1:{port}' --data-dir "$work/data" || exit 1
  AMQP_URL=$("$python" testing/crash/broker.py url --state "$work/broker.state")
  export CTL="$WARREN_BIN ctl --data-dir $work/data"
else
  export CTL=${BROKER_CTL:-}
fi
export AMQP_URL
printf 'run.sh: %s (%s), steps: %s\n' "$AMQP_URL" "$flavor" "${steps[*]}"

run_lane "${lane_one[@]}" & first=$!
run_lane "${lane_two[@]}" & second=$!
wait $first $second
run_lane "${alone[@]}"

touch "$work/passed" "$work/failed"
if [ -z "$against_url" ]; then
  if ! "$python" testing/crash/broker.py stop --state "$work/broker.state" > "$logs/broker-stop.log" 2>&1; then
    printf 'FAIL  broker: it did not stop as it should\n'
    sed 's/^/      | /' "$logs/broker-stop.log"
    echo broker >> "$work/failed"
  fi
fi
left=$(ours)
if [ -n "$left" ]; then
  printf 'FAIL  processes were left behind:\n'
  for pid in $left; do printf '      | %s %s\n' "$pid" "$(tr '\0' ' ' < "/proc/$pid/cmdline" 2>/dev/null)"; done
  echo processes >> "$work/failed"
fi
passed=$(wc -l < "$work/passed")
failed=$(wc -l < "$work/failed")
printf 'run.sh: %d s in all\n' $((SECONDS - begin))
printf 'suites: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
