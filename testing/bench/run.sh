#!/usr/bin/env bash
# make bench: builds the release binary, then runs every workload against Warren, the null broker and, with PEER set,
# real RabbitMQ, in turn in one run; prints a table and keeps the figures in bench-results/. After that the memory
# budgets (what a queue, a message and a connection cost), then the tests with very many queues and messages.
#
#   SECONDS_PER_TEST  seconds per workload and broker (10)
#   WORKLOADS         names, separated by commas (all but routing); `testing/bench/run.sh --list` shows them
#   BROKERS           warren,null,rabbitmq (all)
#   PEER              command that runs a RabbitMQ: `PEER start|stop|ctl rabbitmq4 ...` and `PEER perf-test ARGS`;
#                     without it RabbitMQ and PerfTest are skipped
#   WARREN            a binary to measure instead of building one; memory budgets, which need a build, are left out
#   SCALE             factor of the tests with very many queues and messages that follow (0.1); 0 leaves them out
#   WORKLOADS or --list leave out all that follows the workloads.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=.cache/venv/bin/python   # of testing/setup.sh: has pika
[ -x "$python" ] || python=python3
"$python" testing/bench/bench.py "$@"
# A caller that names workloads or asks for the list wants nothing else.
[ $# -eq 0 ] && [ -z "${WORKLOADS:-}" ] || exit 0
result=0
if [ -z "${WARREN:-}" ]; then
    echo "memory budgets, counted by the allocator (three minutes beside the build)" >&2
    cargo bench -p net --bench budgets || result=$?   # an exceeded budget is told at the end, too
fi
[ "${SCALE:-0.1}" = 0 ] || "$python" testing/bench/scale.py
[ "$result" = 0 ] || echo "a memory budget is exceeded, or the memory budgets did not build" >&2
exit "$result"
