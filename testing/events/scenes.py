"""Actions on a broker that make it tell events: each function is a scene; what happens up to a `yield` is a step with a name.

Everything is in the virtual host `events` and goes with it, except for users. Knows no event."""

import contextlib

import client

VHOST = "events"
TYPES = {"x-max-length": 10, "x-dead-letter-exchange": "dlx", "x-single-active-consumer": True, "a-table": {"in": 1}, "a-list": [1, "two", True], "void": None}


def users(stage):
    stage.ctl("add_user", "ev-user", "secret")
    yield "a user"
    stage.ctl("change_password", "ev-user", "other")
    yield "another password"
    stage.ctl("clear_password", "ev-user")
    yield "no password"
    stage.ctl("set_user_tags", "ev-user", "management", "monitoring")
    yield "tags"
    stage.ctl("set_user_tags", "ev-user")
    yield "no tags"
    stage.ctl("set_user_limits", "ev-user", '{"max-channels": 5, "max-connections": 7}')
    yield "limits"
    stage.ctl("clear_user_limits", "ev-user", "max-channels")
    yield "fewer limits"
    stage.ctl("clear_user_limits", "ev-user", "all")
    yield "no limits"
    stage.ctl("delete_user", "ev-user")
    yield "no user"


def users_over_http(stage):
    stage.http("PUT", "/api/users/ev-web", {"password": "secret", "tags": "management"})
    yield "a user"
    stage.http("PUT", "/api/users/ev-web", {"password": "other", "tags": "management"})
    yield "another password"
    stage.http("PUT", "/api/users/ev-web", {"password": "other", "tags": "monitoring,policymaker"})
    yield "other tags"
    stage.http("PUT", "/api/user-limits/ev-web/max-channels", {"value": 5})
    yield "a limit"
    stage.http("DELETE", "/api/user-limits/ev-web/max-channels")
    yield "no limit"
    stage.http("PUT", f"/api/permissions/{VHOST}/ev-web", {"configure": "a", "write": "b", "read": "c"})
    yield "permissions"
    stage.http("PUT", f"/api/topic-permissions/{VHOST}/ev-web", {"exchange": "amq.topic", "write": "b", "read": "c"})
    yield "topic permissions"
    stage.http("DELETE", f"/api/topic-permissions/{VHOST}/ev-web")
    yield "no topic permissions"
    stage.http("DELETE", f"/api/permissions/{VHOST}/ev-web")
    yield "no permissions"
    stage.http("PUT", f"/api/permissions/{VHOST}/ev-web", {"configure": "a", "write": "b", "read": "c"})
    stage.http("DELETE", "/api/users/ev-web")
    yield "no user, who had permissions"


def vhosts(stage):
    stage.ctl("add_vhost", "ev-vhost", "--description", "a place", "--tags", "a,b")
    yield "a vhost"
    stage.ctl("update_vhost_metadata", "ev-vhost", "--description", "another", "--tags", "c", "--default-queue-type", "classic")
    yield "other metadata"
    stage.ctl("set_vhost_limits", "-p", "ev-vhost", '{"max-queues": 5, "max-connections": 7}')
    yield "limits"
    stage.ctl("clear_vhost_limits", "-p", "ev-vhost")
    yield "no limits"
    stage.ctl("enable_vhost_deletion_protection", "ev-vhost")
    yield "protected"
    stage.ctl("disable_vhost_deletion_protection", "ev-vhost")
    yield "not protected"
    stage.ctl("trace_on", "-p", "ev-vhost")
    yield "traced"
    stage.ctl("trace_off", "-p", "ev-vhost")
    yield "not traced"
    stage.ctl("set_permissions", "-p", "ev-vhost", "guest", "a", "b", "c")
    yield "permissions"
    stage.ctl("set_topic_permissions", "-p", "ev-vhost", "guest", "amq.topic", "b", "c")
    yield "topic permissions"
    stage.ctl("clear_topic_permissions", "-p", "ev-vhost", "guest")
    yield "no topic permissions"
    stage.ctl("clear_permissions", "-p", "ev-vhost", "guest")
    yield "no permissions"
    stage.ctl("set_permissions", "-p", "ev-vhost", "guest", ".*", ".*", ".*")
    other = stage.connect(vhost="ev-vhost").channel()
    other.declare("ev-q", durable=True)
    yield "permissions and a queue"
    other.connection.close()
    yield "nobody there"
    stage.ctl("delete_vhost", "ev-vhost")
    yield "no vhost"


def vhosts_over_http(stage):
    stage.http("PUT", "/api/vhosts/ev-web", {"description": "D", "tags": "a", "default_queue_type": "classic"})
    yield "a vhost"
    stage.http("PUT", "/api/vhosts/ev-web", {"description": "E", "tracing": True})
    yield "other metadata"
    stage.http("PUT", "/api/vhost-limits/ev-web/max-queues", {"value": 5})
    yield "a limit"
    stage.http("DELETE", "/api/vhost-limits/ev-web/max-queues")
    yield "no limit"
    stage.http("DELETE", "/api/vhosts/ev-web")
    yield "no vhost"


def policies(stage):
    channel = stage.connect(vhost=VHOST).channel()
    channel.declare("ev-q", durable=True)
    channel.exchange("direct", "ev-x", durable=True)
    yield "a queue and an exchange"
    definition = '{"max-length": 5, "dead-letter-exchange": "dlx", "message-ttl": 1000}'
    stage.ctl("set_policy", "-p", VHOST, "ev-p", "^ev-", definition, "--priority", "3", "--apply-to", "queues")
    yield "a policy"
    stage.ctl("set_policy", "-p", VHOST, "ev-p", "^ev-", '{"max-length": 6}', "--priority", "4", "--apply-to", "queues")
    yield "another definition"
    stage.ctl("set_policy", "-p", VHOST, "ev-other", "^nothing", '{"max-length": 6}')
    yield "a policy for nothing"
    stage.ctl("set_policy", "-p", VHOST, "ev-x", "^ev-x", '{"alternate-exchange": "ae"}', "--apply-to", "exchanges")
    yield "a policy for exchanges"
    stage.ctl("set_operator_policy", "-p", VHOST, "ev-op", "^ev-q", '{"max-length": 3, "expires": 100000}', "--priority", "1", "--apply-to", "queues")
    yield "an operator policy beside"
    stage.ctl("clear_policy", "-p", VHOST, "ev-p")
    yield "only the operator policy"
    stage.ctl("clear_operator_policy", "-p", VHOST, "ev-op")
    yield "no policy for the queue"
    stage.http("PUT", f"/api/policies/{VHOST}/ev-web", {"pattern": "^ev-q", "definition": {"message-ttl": 5000}, "apply-to": "queues", "priority": 0})
    yield "a policy over HTTP"
    channel.declare("ev-q2", durable=True)
    yield "a new queue to which it applies"
    stage.http("DELETE", f"/api/policies/{VHOST}/ev-web")
    yield "no policy over HTTP"
    stage.http("PUT", f"/api/operator-policies/{VHOST}/ev-web", {"pattern": "^ev-q", "definition": {"message-ttl": 5000}, "apply-to": "queues"})
    yield "an operator policy over HTTP"
    stage.http("DELETE", f"/api/operator-policies/{VHOST}/ev-web")
    yield "no operator policy over HTTP"
    stage.ctl("clear_policy", "-p", VHOST, "ev-x")
    stage.ctl("clear_policy", "-p", VHOST, "ev-other")
    yield "no policy for exchanges"
    for queue in ("ev-q", "ev-q2"):
        channel.call("queue.delete", queue=queue)
    channel.call("exchange.delete", exchange="ev-x")
    channel.connection.close()
    yield "nothing left"


def parameters(stage):
    stage.ctl("set_global_parameter", "ev-global", '{"a": 1, "b": [true, "x"]}')
    yield "a global parameter"
    stage.ctl("set_global_parameter", "ev-global", '"text"')
    yield "as a text"
    stage.ctl("set_global_parameter", "ev-global", "[1, 2]")
    yield "as a list"
    stage.ctl("clear_global_parameter", "ev-global")
    yield "none"
    stage.http("PUT", "/api/global-parameters/ev-web", {"value": {"a": {"b": 1.5}}})
    yield "over HTTP"
    stage.http("DELETE", "/api/global-parameters/ev-web")
    yield "none over HTTP"


def queues_and_exchanges(stage):
    connection = stage.connect(vhost=VHOST)
    channel = connection.channel()
    yield "a channel"
    channel.exchange("headers", "ev-x", durable=True, auto_delete=True, internal=True, arguments={"alternate-exchange": "ae", "n": 1})
    yield "an exchange with everything"
    channel.exchange("fanout", "ev-y")
    yield "a transient exchange"
    channel.declare("ev-q", durable=True, arguments=TYPES)
    yield "a queue with arguments"
    channel.declare("ev-q2", durable=True, auto_delete=True)
    yield "an auto-delete queue"
    channel.declare("", exclusive=True)
    yield "an exclusive queue with a name from the server"
    channel.bind("ev-q", "ev-x", "", {"x-match": "any", "n": 1, "s": "t"})
    yield "a binding with arguments"
    channel.call("exchange.bind", destination="ev-y", source="ev-x", routing_key="", arguments={"n": 2})
    yield "a binding between exchanges"
    channel.bind("ev-q", "amq.topic", "a.#")
    yield "a binding"
    channel.bind("ev-q", "amq.topic", "a.#")
    yield "the same once more"
    channel.call("queue.unbind", queue="ev-q", exchange="amq.topic", routing_key="a.#", arguments={})
    yield "no binding"
    channel.call("queue.purge", queue="ev-q")
    yield "purged"
    channel.call("exchange.delete", exchange="ev-y")
    yield "an exchange that was bound goes"
    channel.call("queue.delete", queue="ev-q")
    yield "a queue that was bound goes, and its exchange"
    channel.consume("ev-q2", "tag")
    channel.call("basic.cancel", consumer_tag="tag")
    yield "an auto-delete queue has lost its consumer"
    channel.declare("ev-q3", durable=True, arguments={"x-expires": 100})
    stage.later("queue.deleted")
    yield "a queue that expires"
    connection.close()
    yield "an exclusive queue goes with its connection"


def over_http(stage):
    stage.http("PUT", f"/api/exchanges/{VHOST}/ev-x", {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "ae"}})
    yield "an exchange"
    stage.http("PUT", f"/api/queues/{VHOST}/ev-q", {"durable": True, "arguments": {"x-max-length": 5}})
    yield "a queue"
    stage.http("POST", f"/api/bindings/{VHOST}/e/ev-x/q/ev-q", {"routing_key": "k", "arguments": {"a": 1}})
    yield "a binding"
    stage.http("DELETE", f"/api/queues/{VHOST}/ev-q")
    yield "no queue"
    stage.http("DELETE", f"/api/exchanges/{VHOST}/ev-x")
    yield "no exchange"


def consumers(stage):
    connection = stage.connect(vhost=VHOST)
    channel, other = connection.channel(), connection.channel()
    channel.declare("ev-q", durable=True)
    yield "two channels and a queue"
    channel.qos(7)
    channel.consume("ev-q", "one", no_ack=True, arguments={"x-priority": 3})
    yield "a consumer without acks"
    channel.consume("ev-q", "two")
    yield "one with acks"
    other.consume("ev-q", "")
    yield "one with a name from the server"
    channel.call("basic.cancel", consumer_tag="two")
    yield "cancelled"
    channel.shut()
    yield "a channel with a consumer closes"
    channel = connection.channel()
    yield "a channel"
    with contextlib.suppress(client.ChannelClosed):
        channel.call("queue.declare", queue="ev-nothing", passive=True)
    yield "a channel closed by an error"
    other.call("queue.delete", queue="ev-q")
    yield "the queue goes under a consumer"
    other.declare("ev-q", exclusive=True)
    other.consume("ev-q", "three", exclusive=True)
    yield "an exclusive consumer"
    connection.close()
    yield "the connection closes with all"


def connections(stage):
    connection = stage.connect(vhost=VHOST, properties={"product": "conformance", "connection_name": "ev-name", "n": 5, "capabilities": {"basic.nack": True}})
    yield "a connection with a name"
    connection.kill()
    stage.later("connection.closed")
    yield "killed by its client"
    connection = stage.connect(vhost=VHOST, mechanism="AMQPLAIN")
    connection.channel()
    yield "by AMQPLAIN"
    stage.close_connections("ev reason")
    with contextlib.suppress(client.Closed, client.SocketClosed):
        connection.wait()
    stage.later("connection.closed")
    yield "closed by an operator"
    with contextlib.suppress(client.Closed, client.SocketClosed):
        stage.connect(user="guest", password="wrong")
    yield "a wrong password"
    with contextlib.suppress(client.Closed, client.SocketClosed):
        stage.connect(user="ev-nobody", password="wrong")
    yield "a user who is not there"
    with contextlib.suppress(client.Closed, client.SocketClosed):
        stage.connect(vhost="ev-nowhere")
    yield "a vhost that is not there"
    stage.http("GET", "/api/whoami", login="guest:wrong")
    yield "a wrong password over HTTP"
    stage.http("GET", "/api/whoami")
    yield "a login over HTTP"


def alarms(stage):
    stage.ctl("set_disk_free_limit", "9999GB")
    stage.later("alarm.set")
    yield "the disk is full"
    stage.ctl("set_disk_free_limit", "50MB")
    stage.later("alarm.cleared")
    yield "it is not"
    stage.ctl("set_vm_memory_high_watermark", "absolute", "1MB")
    stage.later("alarm.set")
    yield "memory is full"
    stage.ctl("set_vm_memory_high_watermark", "0.6")
    stage.later("alarm.cleared")
    yield "it is not"


def definitions(stage):
    document = {
        "users": [{"name": "ev-import", "password_hash": "", "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": ["monitoring"], "limits": {}}],
        "vhosts": [{"name": "ev-import"}],
        "permissions": [{"user": "ev-import", "vhost": "ev-import", "configure": "", "write": "", "read": ".*"}],
        "topic_permissions": [{"user": "ev-import", "vhost": "ev-import", "exchange": "amq.topic", "write": "a", "read": "b"}],
        "parameters": [{"vhost": "ev-import", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 9}}],
        "global_parameters": [{"name": "ev-import", "value": "g"}],
        "policies": [{"vhost": "ev-import", "name": "p", "pattern": ".*", "apply-to": "queues", "definition": {"max-length": 1}, "priority": 0}],
        "queues": [{"vhost": "ev-import", "name": "q", "durable": True, "auto_delete": False, "arguments": {}}],
        "exchanges": [{"vhost": "ev-import", "name": "x", "type": "fanout", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}],
        "bindings": [{"vhost": "ev-import", "source": "x", "destination": "q", "destination_type": "queue", "routing_key": "k", "arguments": {}}],
    }
    stage.http("POST", "/api/definitions", document)
    yield "imported"
    stage.http("POST", "/api/definitions", document)
    yield "once more"
    stage.ctl("delete_vhost", "ev-import")
    yield "no vhost"
    stage.ctl("delete_user", "ev-import")
    stage.ctl("clear_global_parameter", "ev-import")
    yield "no user, no parameter"


def shovels(stage):
    uri = f"{stage.url.rsplit('/', 1)[0]}/{VHOST}"
    value = {"src-uri": uri, "src-queue": "ev-a", "dest-uri": uri, "dest-queue": "ev-b", "ack-mode": "on-confirm", "reconnect-delay": 60}
    path = f"/api/parameters/shovel/{VHOST}/ev-s"
    stage.http("PUT", path, {"value": value})
    stage.later("shovel.worker.status", status="running")
    yield "a shovel"
    stage.http("DELETE", f"/api/shovels/vhost/{VHOST}/ev-s/restart")
    stage.later("shovel.worker.status", status="running")
    yield "restarted"
    stage.http("DELETE", path)
    stage.later("shovel.worker.removed")
    yield "deleted"
    stage.http("PUT", path, {"value": {**value, "src-uri": "amqp://guest:wrong@" + uri.split("@")[1]}})
    stage.later("shovel.worker.status", status="terminated")
    yield "a shovel that cannot log in"
    stage.http("DELETE", path)
    stage.later("shovel.worker.removed")
    yield "deleted"
    path = f"/api/parameters/shovel/{VHOST}/ev-once"
    stage.http("PUT", path, {"value": {**value, "src-delete-after": "queue-length"}})
    stage.later("shovel.worker.removed")
    yield "a shovel that is done at once"


SCENES = [users, users_over_http, vhosts, vhosts_over_http, policies, parameters, queues_and_exchanges, over_http, consumers, connections, alarms, definitions, shovels]
