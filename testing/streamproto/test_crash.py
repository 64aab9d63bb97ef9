"""State of publishers and consumers survives the end of the process, and alarms and permissions hold."""

import struct
import time

from frames import CREATE_SUPER_STREAM, PARTITIONS, QUERY_OFFSET, STORE_OFFSET, Reader, array, mapping, message, text


def test_publishing_ids_and_offsets_survive_a_kill(fresh):
    client = fresh.client()
    client.create("s")
    client.declare("s", 1, "ref")
    client.publish([message(b"one"), message(b"two")], first=1)
    client.confirmed(2)
    client.send(STORE_OFFSET, text("me") + text("s") + struct.pack(">Q", 1))
    client.publish([message(b"three")], first=3)
    client.confirmed(1)
    time.sleep(1.5)
    fresh.restart()
    client = fresh.client()
    assert client.sequence("ref", "s") == (1, 3)
    code, reader = client.request(QUERY_OFFSET, text("me") + text("s"))
    assert (code, reader.number(8)) == (1, 1)
    client.declare("s", 1, "ref")
    client.publish([message(b"three"), message(b"four")], first=3)
    client.confirmed(2)
    client.subscribe("s")
    assert client.bodies(4) == [b"one", b"two", b"three", b"four"]


def test_super_streams_survive_a_kill(fresh):
    client = fresh.client()
    names = ["sup-0", "sup-1"]
    body = text("sup") + array(*map(text, names)) + array(text("0"), text("1")) + mapping()
    assert client.code(CREATE_SUPER_STREAM, body) == 1
    fresh.restart()
    code, reader = fresh.client().request(PARTITIONS, text("sup"))
    assert (code, reader.texts()) == (1, names)


def test_an_alarm_of_the_disk_stops_publishers_and_not_consumers(fresh):
    client, reader = fresh.client(), fresh.client()
    client.create("s")
    client.declare("s")
    client.publish([message(b"before")])
    client.confirmed(1)
    fresh.ctl("set_disk_free_limit", "100TB")
    deadline = time.monotonic() + 10
    while reader.declare("s") != 0x11:
        assert time.monotonic() < deadline
        reader.code(6, b"\x01")
    assert reader.subscribe("s") == 1
    assert reader.bodies(1) == [b"before"]
    client.publish([message(b"during")], first=1)
    assert client.is_quiet(3)
    fresh.ctl("set_disk_free_limit", "50MB")
    assert client.confirmed(1) == [1]
    assert reader.bodies(1) == [b"during"]


def test_users_need_permissions(fresh):
    admin = fresh.client()
    admin.create("mine")
    admin.create("other")
    fresh.ctl("add_user", "u", "p")
    fresh.ctl("set_permissions", "u", "^mine$", "^mine$", "^mine$")
    client = fresh.client(user="u", password="p")
    assert client.declare("mine") == 1 and client.subscribe("mine") == 1
    assert client.declare("other", 2) == 0x10 and client.subscribe("other", 2) == 0x10
    assert client.create("third") == 0x10 and client.delete("other") == 0x10
    assert client.sequence("r", "other") == (0x10, 0)
    fresh.ctl("add_vhost", "v")
    stranger = fresh.client(user="u", password="p", opened=False)
    stranger.handshake()
    stranger.login("u", "p")
    stranger.tune()
    assert stranger.open("v")[0] == 0x0C


def test_a_connection_that_is_closed_by_an_operator_ends(fresh):
    client = fresh.client()
    client.create("s")
    fresh.ctl("close_all_connections", "enough")
    assert client.is_ended()


def test_many_messages_from_files_are_read_whole(fresh):
    client = fresh.client()
    client.create("s", stream_max_segment_size_bytes="200000")
    client.declare("s")
    bodies = [b"%06d" % nth * 50 for nth in range(10_000)]
    for at in range(0, 10_000, 100):
        client.publish([message(body) for body in bodies[at:at + 100]], first=at)
    client.confirmed(10_000)
    fresh.restart()
    client = fresh.client()
    client.subscribe("s", credit=3)
    assert client.bodies(10_000) == bodies
    assert Reader(b"\0\1").number(2) == 1
