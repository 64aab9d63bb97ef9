#!/usr/bin/env bash
# Instructions per message between the socket's bytes and the socket's bytes (edge/protocols/benches/hot_path), counted by valgrind:
# the same on a busy machine as on an idle one. Also how many of them measure the stages (`warren ctl stages`); exits with 1 if those
# are more than STAGE_INSTRUCTIONS_MAX (40: 1 or 2, and up to 30 for copies that lie otherwise in memory with and without stages) in a
# workload of full reads of small messages, 300 where a read has twenty (some 80, and up to 120 for an allocator that finds other holes with
# them than without), or 2000 where each message is a read and an ack of its own, or if a workload takes more than its bound below: then
# find out where they went and mend it, or raise the bound with a reason. Prints Markdown. Takes a minute or two. Needs valgrind. A step of
# `cargo xtask suites`.
#
#   testing/bench/hot_path.sh             all workloads, the least of five runs each; ROUNDS=1 for one, which is up to 1 % more
#   testing/bench/hot_path.sh 1           the second one, with the functions that take most
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v valgrind > /dev/null || { echo "valgrind is not installed (apt-get install valgrind)" >&2; exit 2; }
most=${STAGE_INSTRUCTIONS_MAX:-40}
rounds=${ROUNDS:-5}
# Instructions per message at most: what the table in docs/performance.md has, and some 8 % for compilers, processors and C libraries.
declare -A bounds=(
  [fanout]=480 [direct]=680 [durable]=745 [fanout-10]=350 ["each acked, 20 a read"]=2120 ["each acked, one a read"]=14700
  ["1 kB, acked"]=1410 ["default exchange, confirmed"]=680
)
# Whether the C library copies 2 kB and more with a loop or with one instruction depends on where both places lie in their pages, and that on
# what was allocated before: 8 % of fanout to 10, a third of 1 kB, from run to run and from commit to commit. It always takes the loop here.
export GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=100000000
bench=${BENCH:-$(cargo bench --package protocols --bench hot_path --no-run 2>&1 | sed -n 's/^ *Executable .*(\(.*\))$/\1/p')}
[ -x "$bench" ] || { echo "the benchmark does not build: cargo bench --package protocols --bench hot_path --no-run" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints "MESSAGES<tab>NAME<tab>INSTRUCTIONS"; nothing if there is no such workload.
counted() {
  valgrind --tool=callgrind --callgrind-out-file="$work/out" --collect-atstart=no \
    --toggle-collect='hot_path::client::counted*' "$bench" --one-round-of "$@" > "$work/said" 2> "$work/errors"
  [ -s "$work/said" ] || return 0
  printf '%s\t%s\n' "$(cat "$work/said")" "$(sed -n 's/^==[0-9]*== Collected : *//p' "$work/errors")"
}

# The least of some: what other threads and the allocator do differs a little from run to run.
least() {
  for ((round = 0; round < rounds; round++)); do counted "$@"; done | sort -t$'\t' -k3n | head -1
}

if [ $# -eq 1 ]; then
  IFS=$'\t' read -r messages name instructions <<< "$(counted "$1")"
  echo "$name: $((instructions / messages)) instructions per message; by function:"
  # Inlined code counts for the function that it is in.
  callgrind_annotate --auto=no --threshold=99 "$work/out" | awk -v n="$messages" '
    /^ *[0-9,]+ \(/ {
      gsub(",", "", $1); of = $1 / n; sub(/^[^)]*\) +/, ""); sub(/^[^ ]*\.(rs|S|c|h):/, ""); sub(/ \[.*/, "")
      if ($0 !~ /PROGRAM TOTALS/) sum[$0] += of
    }
    END { for (name in sum) if (sum[name] >= 1) printf "%7.1f  %s\n", sum[name], name }' | sort -rn
  exit
fi
echo "| workload | instructions per message | of these, stages |"
echo "|---|---:|---:|"
failed=0
for ((nth = 0; ; nth++)); do
  IFS=$'\t' read -r messages name with <<< "$(least "$nth")"
  [ -n "${messages:-}" ] || break
  IFS=$'\t' read -r others _ without <<< "$(least "$nth" --without-stages)"
  stages=$(awk "BEGIN { printf \"%.1f\", $with / $messages - $without / $others }")
  echo "| $name | $((with / messages)) | $stages |"
  most_here=${bounds[$name]:?"no bound for the workload $name in testing/bench/hot_path.sh"}
  if ((with / messages > most_here)); then
    echo "$name: $((with / messages)) instructions per message, more than $most_here; testing/bench/hot_path.sh $nth shows where they are" >&2
    failed=1
  fi
  case $name in
    *"one a read") bound=2000 ;;
    *"a read" | "1 kB"*) bound=300 ;;
    *) bound=$most ;;
  esac
  if awk "BEGIN { exit !($stages > $bound) }"; then
    echo "$name: measuring the stages takes more than $bound instructions per message" >&2
    failed=1
  fi
done
[ "$failed" != 0 ] || echo "$nth passed: every workload is below its bounds"
exit $failed
