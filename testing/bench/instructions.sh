#!/usr/bin/env bash
# Instructions per operation of the routing scenarios (core/routing/benches/founding.rs), counted by valgrind: the same on a busy
# machine as on an idle one. Prints Markdown. Takes some minutes. Needs valgrind.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v valgrind > /dev/null || { echo "valgrind is not installed (apt-get install valgrind)" >&2; exit 2; }
bench=$(cargo bench --package routing --bench founding --no-run 2>&1 | sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
[ -x "$bench" ] || { echo "the benchmark does not build: cargo bench --package routing --bench founding --no-run" >&2; exit 1; }
echo "| scenario | instructions each |"
echo "|---|---:|"
for ((nth = 0; ; nth++)); do
  said=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no --toggle-collect='founding::counted*' \
    "$bench" --one-round-of "$nth" 2>&1)
  line=$(grep -P '^\d+\t' <<< "$said") || break
  collected=$(sed -n 's/^==[0-9]*== Collected : *//p' <<< "$said")
  echo "| ${line#*$'\t'} | $((collected / ${line%%$'\t'*})) |"
done
