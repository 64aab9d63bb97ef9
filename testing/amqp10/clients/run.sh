#!/usr/bin/env bash
# run.sh: what users of RabbitMQ's own clients for AMQP 1.0 do first, in Python, Go and Java. AMQP_URL says where the broker is, CACHE
# where testing/setup.sh put the clients.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
clients=${CACHE:?}/amqp10
address=${AMQP_URL#*@}
address=${address%%/*}
# The client in Python takes a path for the name of a vhost as it stands.
failed=0
"$clients/venv/bin/python" python/scenario.py "${AMQP_URL%/*}/" || failed=1
"$clients/go.test" -test.count=1 -test.v || failed=1
java -cp "$clients/java/*" java/Scenario.java "${address%:*}" "${address##*:}" || failed=1
exit $failed
