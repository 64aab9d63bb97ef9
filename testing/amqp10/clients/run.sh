#!/usr/bin/env bash
# run.sh: what users of RabbitMQ's own clients for AMQP 1.0 do first, in Python, Go and Java; what Qpid Proton's examples do; and what becomes
# of messages between AMQP 0-9-1 and AMQP 1.0, beside what RabbitMQ 4.3 was seen to make of them. AMQP_URL says where the broker is, CACHE
# where testing/setup.sh put the clients.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
clients=${CACHE:?}/amqp10
address=${AMQP_URL#*@}
address=${address%%/*}
# The client in Python takes a path for the name of a vhost as it stands.
failed=0
"$clients/venv/bin/python" python/scenario.py "${AMQP_URL%/*}/" || failed=1
"$clients/venv/bin/python" python/messaging.py "$address" || failed=1
"$clients/venv/bin/python" ../differ.py "${address##*:}" || failed=1
"$clients/go.test" -test.count=1 -test.v || failed=1
java -cp "$clients/java/*" java/Scenario.java "${address%:*}" "${address##*:}" || failed=1
exit $failed
