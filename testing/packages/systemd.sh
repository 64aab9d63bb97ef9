#!/bin/bash
# The Debian package and its service as their users meet them, under a real systemd in a container of its own: installed, started,
# used in its sandbox, killed, stopped, upgraded, removed. `make test-deb` calls it.
#
#   testing/packages/systemd.sh PACKAGE.deb
#   TREE=FOLDER         a Debian with systemd to boot; made with debootstrap when it is not there (default .cache/debian). It is not
#                       changed: what happens in the container lies in memory.
#   NSPAWN=COMMAND      default systemd-nspawn
#
# Needs root, debootstrap, systemd-nspawn (Debian: systemd-container). Opens no port of this machine, leaves no process behind.
set -euo pipefail
cd "$(dirname "$0")/../.."
PACKAGE=$(realpath "${1:?which package? testing/packages/systemd.sh PACKAGE.deb}")
TREE=${TREE:-$PWD/.cache/debian}
NSPAWN=${NSPAWN:-systemd-nspawn}
MIRROR=${MIRROR:-http://deb.debian.org/debian}
work=$(mktemp -d)

for tool in "$NSPAWN" debootstrap nsenter; do
  command -v "$tool" >/dev/null || { echo "missing: $tool (apt-get install systemd-container debootstrap util-linux)" >&2; exit 2; }
done
if [ ! -e "$TREE/usr/lib/systemd/systemd" ]; then
  echo "making $TREE (about two minutes)"
  debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,libgcc-s1,procps bookworm "$TREE" "$MIRROR" >"$work/debootstrap.log" ||
    { tail -5 "$work/debootstrap.log" >&2; exit 1; }
fi

"$NSPAWN" --directory="$TREE" --volatile=overlay --boot --register=no --keep-unit --machine="warren-test-$$" --private-network \
  --bind-ro="$PACKAGE:/warren.deb" >"$work/boot.log" 2>&1 </dev/null &
nspawn=$!
finish() {
  [ -z "${leader:-}" ] || kill -s RTMIN+4 "$leader" 2>/dev/null || true # systemd's signal for power-off
  for _ in $(seq 50); do kill -0 $nspawn 2>/dev/null || break; sleep 0.1; done
  kill -KILL $nspawn 2>/dev/null || true
  wait $nspawn 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
inside() { nsenter -t "$leader" -m -u -i -n -p -C -r -w env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb "$@"; }
die() { echo "systemd.sh: $*" >&2; [ -z "${leader:-}" ] || inside journalctl -u warren --no-pager -o cat | tail -8 >&2; exit 1; }
say() { echo "ok    $*"; }
of_service() { inside systemctl show -p "$1" --value warren; }
until_true() { for _ in $(seq 150); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done; die "not in 15 seconds: $*"; }

until_true pgrep -P $nspawn
leader=$(pgrep -P $nspawn | head -1)
until_true inside systemctl is-system-running --wait
say "systemd is up: $(inside systemctl --version | head -1)"

inside apt-get install -y --no-install-recommends /warren.deb >"$work/apt.log" 2>&1 || { tail -5 "$work/apt.log"; die "it does not install"; }
[ "$(of_service ActiveState)" = inactive ] || die "installing has started it"
inside systemctl enable -q --now warren || die "it does not start"
inside warren ctl -q ping >/dev/null || die "started, and does not answer"
[ "$(inside ps -o user= -p "$(of_service MainPID)")" = warren ] || die "it runs as another user"
[ "$(inside stat -c '%U %a' /var/lib/warren)" = "warren 750" ] || die "others may read the data"
say "the package installs without starting; a started service answers at once, as the user warren"

inside sh -c 'rabbitmqctl -q add_user shop pw >/dev/null && rabbitmqctl -q set_permissions shop ".*" ".*" ".*"'
inside warren perf --uri amqp://shop:pw@127.0.0.1:5672 -x 1 -y 0 -s 4096 -f persistent -c 100 -u kept -ad false -C 5000 >"$work/perf.log" 2>&1 ||
  { tail -3 "$work/perf.log"; die "no messages"; }
for command in "profile threads --seconds 1" "profile heap --seconds 1" memory_breakdown status "check_port_connectivity" "report"; do
  # shellcheck disable=SC2086
  inside warren ctl -q $command >"$work/out" 2>&1 || grep "no samples" "$work/out" >/dev/null || { cat "$work/out"; die "$command in the sandbox"; }
done
kept=$(inside warren ctl -q -s list_queues name messages)
say "in its sandbox it takes messages ($kept), shows threads and memory"

first=$(of_service MainPID)
inside kill -KILL "$first"
until_true inside sh -c "[ \$(systemctl show -p MainPID --value warren) != $first ] && systemctl is-active -q warren"
[ "$(of_service NRestarts)" = 1 ] || die "not restarted by systemd"
[ "$(inside warren ctl -q -s list_queues name messages)" = "$kept" ] || die "messages are missing after a kill"
say "killed, it is started again by systemd and has the messages"

second=$(of_service MainPID)
inside apt-get install -y --reinstall /warren.deb >"$work/apt.log" 2>&1 || { tail -5 "$work/apt.log"; die "it does not install again"; }
[ "$(of_service MainPID)" != "$second" ] && [ "$(of_service ActiveState)" = active ] || die "an upgrade does not restart it"
[ "$(inside warren ctl -q -s list_queues name messages)" = "$kept" ] || die "messages are missing after an upgrade"
say "an upgrade restarts it"

inside systemctl stop warren
[ "$(of_service Result) $(of_service ExecMainStatus)" = "success 0" ] || die "stopped with $(of_service Result) $(of_service ExecMainStatus)"
inside journalctl -u warren --no-pager -o cat | grep '^ready amqp=' >/dev/null || die "the ready line is not in the journal"
inside journalctl -u warren --no-pager -o cat | grep 'stopped$' >/dev/null || die "the end is not in the journal"
say "stop is clean, the journal has it"

inside systemctl start warren
for shell in bash-completion/completions/warren zsh/vendor-completions/_warren fish/vendor_completions.d/{warren,rabbitmqctl}.fish; do
  inside test -s /usr/share/$shell || die "no completions in /usr/share/$shell"
done
inside apt-get purge -y warren >"$work/apt.log" 2>&1 || { tail -5 "$work/apt.log"; die "it does not go"; }
inside sh -c '! pgrep -x warren && test -d /var/lib/warren/log && ! test -e /etc/warren/rabbitmq.conf' >/dev/null || die "a purge leaves the wrong things"
say "a purge ends it and leaves the messages"
