"""Sessions: who is let in, what outlives a connection, who takes over, what is said when it is lost."""

import socket
import time

import pytest
from clients import V5, V31, V311, properties
from served import DEADLINE_S, until
from paho.mqtt.subscribeoptions import SubscribeOptions

VERSIONS = [V31, V311, V5]


@pytest.mark.parametrize("version", VERSIONS)
def test_wrong_passwords_are_refused(broker, version):
    client = broker.client("w", version, login=("guest", "wrong"))
    assert client.refused and client.reason.getName() in ("Bad user name or password", "Not authorized")


def test_a_session_stays_in_its_groups(fresh):
    def member(**given):
        return fresh.client("stays", V5, clean=False, expiry_s=60, **given)

    first = member()
    first.subscribe([("$share/g/staff/+", SubscribeOptions(2)), ("$share/h/staff/a", SubscribeOptions(0)), ("$share/g/left", SubscribeOptions(1))])
    assert first.unsubscribe("$share/g/left") == [0]
    first.disconnect()
    sender = fresh.client("staff sender", V5)
    sender.publish("staff/a", b"1", 2)
    fresh.kill()
    fresh.start()
    again = member()
    assert again.session_present
    got = sorted((message.payload, message.qos) for message in (again.next(), again.next()))
    assert got == [(b"1", 0), (b"1", 2)]
    fresh.client("staff sender", V5).publish("left", b"2", 1)
    again.nothing()
    again.disconnect()
    fresh.client("stays", V5, clean=True).disconnect()
    later = fresh.client("stays", V5)
    assert not later.session_present
    fresh.client("staff sender", V5).publish("staff/a", b"3", 1)
    later.nothing()


@pytest.mark.parametrize("hears", [True, False])
def test_a_publish_of_qos_2_is_taken_once_by_a_session_without_subscriptions(broker, hears):
    """The publisher sends it again after its connection was lost, before or after PUBREC."""
    reader = broker.client("once reader")
    reader.subscribe("on/ce", 2)
    name = f"once {hears}"
    field = lambda text: len(text).to_bytes(2, "big") + text.encode()

    def publisher(present):
        client = socket.create_connection(("127.0.0.1", broker.port), timeout=DEADLINE_S)
        body = field("MQTT") + bytes([4, 0xC0, 0, 0]) + field(name) + field("guest") + field("guest")
        client.sendall(bytes([0x10, len(body)]) + body)
        assert client.recv(4) == bytes([0x20, 2, present, 0])
        return client

    publish = lambda client, flags: client.sendall(bytes([flags, 10]) + field("on/ce") + b"\0\7x")
    first = publisher(0)
    publish(first, 0x34)
    if hears:
        assert first.recv(4) == bytes([0x50, 2, 0, 7])
    first.close()
    again = publisher(1)
    publish(again, 0x3C)
    assert again.recv(4) == bytes([0x50, 2, 0, 7])
    again.sendall(bytes([0x62, 2, 0, 7]))
    assert again.recv(4) == bytes([0x70, 2, 0, 7])
    assert reader.next().payload == b"x"
    reader.nothing()
    again.close()


def test_a_refusal_is_said_in_the_version_of_the_client(broker):
    """CONNECT of version 5 with a flag that is reserved: the answer has properties."""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=DEADLINE_S) as client:
        body = b"\0\4MQTT\5\1\0\0\0\0\1x"
        client.sendall(bytes([0x10, len(body)]) + body)
        kind, length, flags, code = client.recv(4)
        assert (kind, flags, code) == (0x20, 0, 0x81) and length > 2


def test_a_full_vhost_is_named(broker):
    broker.ctl("set_vhost_limits", '{"max-connections": 0}')
    refused = broker.client("too many", V5)
    broker.ctl("clear_vhost_limits")
    assert refused.refused and refused.reason.value == 0x97
    assert "access to vhost '/' refused for user 'guest': connection limit (0) is reached" in str(refused.given)


def test_b165_anonymous_clients_are_the_anonymous_user(broker):
    assert not broker.client("anonymous", login=(None, None)).refused
    rows = broker.rows("list_connections", "user", "protocol")
    assert ["guest", "{'MQTT', {3,1,1}}"] in rows, rows


def test_b169_a_user_name_may_begin_with_a_vhost(broker):
    broker.ctl("add_vhost", "devices")
    broker.ctl("set_permissions", "-p", "devices", "guest", ".*", ".*", ".*")
    inside = broker.client("inside", login=("devices:guest", "guest"))
    inside.subscribe("v/#")
    outside = broker.client("outside")
    outside.publish("v/1", b"other vhost")
    broker.client("inside2", login=("devices:guest", "guest")).publish("v/1", b"same vhost")
    assert inside.next().payload == b"same vhost"


def test_clients_without_an_id_get_one(broker):
    client = broker.client("", V5)
    assert client.given.AssignedClientIdentifier
    assert not broker.client("", V311).refused


@pytest.mark.parametrize("version", VERSIONS)
def test_sessions_keep_subscriptions_and_messages(broker, version):
    name = f"keeps{version}"
    client = broker.client(name, version, clean=False, expiry_s=100 if version == V5 else None)
    assert not client.session_present
    client.subscribe([("keep/+", 1)] if version != V5 else "keep/+", *([] if version != V5 else [1]))
    client.disconnect()
    sender = broker.client(f"sender{version}", version)
    for nth in range(20):
        sender.publish(f"keep/{version}", b"%d" % nth, 1)
    client = broker.client(name, version, clean=False, expiry_s=100 if version == V5 else None)
    assert client.session_present or version == V31
    assert client.payloads(20) == [b"%d" % nth for nth in range(20)]
    client.disconnect()
    broker.client(name, version, clean=True).disconnect()
    client = broker.client(name, version, clean=False, expiry_s=100 if version == V5 else None)
    assert not client.session_present
    client.disconnect()
    broker.client(name, version, clean=True).disconnect()


def test_clean_sessions_leave_nothing(broker):
    client = broker.client("leaves", V311)
    client.subscribe([("l/1", 0), ("l/2", 1)])
    names = {row[0] for row in broker.rows("list_queues", "name")}
    assert {"mqtt-subscription-leavesqos0", "mqtt-subscription-leavesqos1"} <= names
    client.disconnect()
    gone = lambda: not any("leaves" in row[0] for row in broker.rows("list_queues", "name"))
    until("queues are gone", gone)


def test_sessions_expire(broker):
    client = broker.client("expires", V5, clean=False, expiry_s=1)
    client.subscribe("x/y", 1)
    client.disconnect()
    until("it expired", lambda: not any("expires" in row[0] for row in broker.rows("list_queues", "name")))
    assert not broker.client("expires", V5, clean=False).session_present


def expiries(broker, name):
    """`x-expires` of the session's queues, in seconds."""
    queues = broker.api("queues")
    mine = [it["arguments"].get("x-expires") for it in queues if it["name"].startswith(f"mqtt-subscription-{name}qos")]
    return [None if it is None else it / 1000 for it in mine]


def test_a_session_has_the_expiry_of_its_latest_connect(fresh):
    def connect(seconds):
        client = fresh.client("told", V5, clean=False, expiry_s=seconds)
        return client, client.session_present, client.given.SessionExpiryInterval

    client, present, told = connect(100)
    assert (present, told) == (False, 100)
    client.subscribe([("told/#", 1), ("tell/#", 0)])
    client.disconnect()
    client, present, told = connect(3600)
    assert (present, told) == (True, 3600)
    fresh.kill()
    fresh.leave()
    fresh.start()
    assert expiries(fresh, "told") == [3600, 3600]
    client, present, told = connect(1_000_000)
    assert (present, told) == (True, 86_400), "mqtt.max_session_expiry_interval_seconds bounds it"
    sender = fresh.client("sender")
    sender.publish("told/x", b"as ever", 1)
    assert client.next().payload == b"as ever"
    client.disconnect()
    client, present, told = connect(1)
    assert (present, told) == (True, 1)
    client.disconnect()
    until("it expired", lambda: expiries(fresh, "told") == [])
    assert connect(100)[1:] == (False, 100)


def test_a_session_that_ends_with_its_connection_is_gone_after_a_kill(fresh):
    client = fresh.client("short", V5, clean=False, expiry_s=100)
    client.subscribe("short/#", 1)
    client.disconnect()
    client = fresh.client("short", V5, clean=False, expiry_s=0)
    assert (client.session_present, client.given.SessionExpiryInterval) == (True, 0)
    fresh.kill()
    fresh.leave()
    fresh.start()
    until("it is gone", lambda: expiries(fresh, "short") == [])
    assert not fresh.client("short", V5, clean=False, expiry_s=100).session_present


def test_disconnect_changes_the_expiry_of_a_session(fresh):
    client = fresh.client("longer", V5, clean=False, expiry_s=1)
    client.subscribe([("longer/#", 1), ("long/#", 0)])
    client.disconnect(properties=properties("DISCONNECT", SessionExpiryInterval=500))
    until("both queues have it", lambda: expiries(fresh, "longer") == [500, 500])
    # A later change is answered when both are durable.
    assert fresh.ctl("add_user", "later", "pw")[0] == 0
    fresh.kill()
    fresh.leave()
    fresh.start()
    assert expiries(fresh, "longer") == [500, 500]
    client = fresh.client("longer", V5, clean=False, expiry_s=500)
    assert client.session_present
    client.disconnect(properties=properties("DISCONNECT", SessionExpiryInterval=1))
    until("it expired", lambda: expiries(fresh, "longer") == [])


def test_who_may_not_configure_its_queues_does_not_end_a_session(broker):
    broker.ctl("add_user", "guestly", "pw")
    broker.ctl("set_permissions", "guestly", "^$", ".*", "^$")
    client = broker.client("kept", V5, clean=False, expiry_s=100)
    client.subscribe("kept/#", 1)
    client.disconnect()
    broker.client("sender").publish("kept/x", b"waits", 1)
    for clean in (True, False):
        other = broker.client("kept", V5, clean=clean, expiry_s=100, login=("guestly", "pw"))
        assert other.refused and other.reason.value == 0x87
    client = broker.client("kept", V5, clean=False, expiry_s=100)
    assert client.session_present and client.next().payload == b"waits"


def test_disconnect_may_end_a_session_and_not_prolong_one(broker):
    client = broker.client("ends", V5, clean=False, expiry_s=100)
    client.subscribe("x/y", 1)
    client.disconnect(properties=properties("DISCONNECT", SessionExpiryInterval=0))
    # The next connection may be heard before the words of this one.
    until("its queue is gone", lambda: not any("ends" in row[0] for row in broker.rows("list_queues", "name")))
    assert not broker.client("ends", V5, clean=False).session_present
    client = broker.client("ends2", V5, clean=True)
    client.paho.disconnect(properties=properties("DISCONNECT", SessionExpiryInterval=10))


@pytest.mark.parametrize("version", VERSIONS)
def test_b168_a_client_id_is_taken_over(broker, version):
    first = broker.client("one", version, clean=False, expiry_s=100 if version == V5 else None, manual_ack=True)
    first.subscribe("t/o", 1)
    broker.client("other", version).publish("t/o", b"unacked", 1)
    assert first.next().payload == b"unacked"
    second = broker.client("one", version, clean=False, expiry_s=100 if version == V5 else None)
    reason = first.event("disconnect")[1]
    assert version != V5 or reason.value == 0x8E
    message = second.next()
    assert (message.payload, message.dup) == (b"unacked", True)
    assert second.session_present or version == V31
    second.disconnect()
    broker.client("one", version, clean=True).disconnect()


def test_redeliveries_have_their_packet_id(broker):
    first = broker.client("ids", V311, clean=False, manual_ack=True)
    first.subscribe("i/d", 1)
    sender = broker.client("ids sender")
    for nth in range(3):
        sender.publish("i/d", b"%d" % nth, 1)
    before = {message.payload: message.mid for message in (first.next() for _ in range(3))}
    first.drop()
    again = broker.client("ids", V311, clean=False)
    assert {message.payload: message.mid for message in (again.next() for _ in range(3))} == before
    again.disconnect()
    broker.client("ids", V311).disconnect()


def test_wills(broker):
    watcher = broker.client("watcher", V5)
    watcher.subscribe("will/#", 1)
    broker.client("lost", V311, will=("will/lost", b"gone", 1, False)).drop()
    assert watcher.next().payload == b"gone"
    broker.client("leaves", V311, will=("will/leaves", b"gone", 1, False)).disconnect()
    watcher.nothing()
    client = broker.client("silent", V5, keep_alive=1, will=("will/silent", b"silent", 0, False))
    client.paho.loop_stop()
    assert watcher.next().payload == b"silent"


def test_a_will_waits_for_its_client(broker):
    watcher = broker.client("watcher2", V5)
    watcher.subscribe("late/#", 1)
    will = ("late/will", b"gone", 1, False, properties("WILLMESSAGE", WillDelayInterval=1))
    options = {"clean": False, "expiry_s": 100, "will": will}
    broker.client("late", V5, **options).drop()
    back = broker.client("late", V5, **options)
    watcher.nothing(1.5)
    began = time.monotonic()
    back.drop()
    assert watcher.next().payload == b"gone"
    assert time.monotonic() - began > 0.8
    broker.client("late", V5, clean=True).disconnect()


def test_silence_ends_a_connection(broker):
    client = broker.client("quiet", V5, keep_alive=1)
    client.paho.loop_stop()
    quiet = lambda: any("quiet" in row[0] for row in broker.rows("list_connections", "client_properties"))
    assert quiet()
    until("it is closed", lambda: not quiet())
