#!/usr/bin/env bash
# A CPU flame graph of the broker while a workload runs: testing/bench/flame.sh WORKLOAD
#
# Leaves WORKLOAD-BROKER.svg, .folded and .top (the 30 functions with the most time of their own) in bench-results/ and
# prints the last. BROKER=null looks at the null broker instead; SECONDS_PER_TEST and WARREN as for run.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec python3 testing/bench/flame.py "$@"
