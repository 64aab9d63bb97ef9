#!/usr/bin/env bash
# make bench: builds the release binary, then runs every workload against Warren, the null broker and, where there is
# one, real RabbitMQ, in turn in one run; prints a table and keeps the figures in bench-results/.
#
#   SECONDS_PER_TEST  seconds per workload and broker (10)
#   WORKLOADS         names, separated by commas (all but routing); `testing/bench/run.sh --list` shows them
#   BROKERS           warren,null,rabbitmq (all)
#   PEER              command that runs a RabbitMQ: `PEER start|stop|ctl rabbitmq4 ...` and `PEER perf-test ARGS`;
#                     without it RabbitMQ and PerfTest are skipped
#   WARREN            a binary to measure instead of building one
#   SCALE             factor of the tests with very many queues and messages that follow (0.1); 0 leaves them out, and so does WORKLOADS
set -euo pipefail
cd "$(dirname "$0")/../.."
python=.cache/venv/bin/python   # of testing/setup.sh: has pika
[ -x "$python" ] || python=python3
"$python" testing/bench/bench.py "$@"
# Who names workloads or asks for the list wants nothing else.
if [ $# -eq 0 ] && [ -z "${WORKLOADS:-}" ] && [ "${SCALE:-0.1}" != 0 ]; then
    exec "$python" testing/bench/scale.py
fi
