"""Streams by the protocol: created, published to, read, filtered, deleted; offsets and publishing ids."""

import gzip
import struct
import time

import pytest

from frames import (CONSUMER_UPDATE, CREATE_SUPER_STREAM, CREDIT, DELETE_PUBLISHER, DELETE_SUPER_STREAM, DELIVER, EXCHANGE_VERSIONS, FIRST,
                    LAST, METADATA_UPDATE, NEXT, PARTITIONS, PUBLISH, PUBLISH_CONFIRM, QUERY_OFFSET, RESOLVE_OFFSET, ROUTE,
                    STORE_OFFSET, STREAM_STATS, UNSUBSCRIBE, Reader, array, at_offset, at_time, batch, body_of, data, mapping, message,
                    pairs, text)


def messages(*bodies):
    return [message(body) for body in bodies]


def numbered(count, begin=0):
    return [b"%d" % nth for nth in range(begin, begin + count)]


def test_streams_are_created_once_and_deleted(broker):
    client, name = broker.client(), broker.name()
    assert client.create(name, max_age="1h", max_length_bytes="1000000", stream_max_segment_size_bytes="50000") == 1
    assert client.create(name, max_age="1h", max_length_bytes="1000000", stream_max_segment_size_bytes="50000") == 5
    assert client.create(name, max_age="2h") == 0x11
    assert client.delete(name) == 1 and client.delete(name) == 2
    assert client.create("amq.x") == 0x11 and client.create("") == 0x11
    assert client.create(broker.name(), queue_leader_locator="nowhere") == 0x11
    assert client.create(broker.name(), stream_filter_size_bytes="7") == 0x11


def test_other_queues_are_no_streams(broker):
    client, name = broker.client(), broker.name()
    channel = broker.channel()
    channel.queue_declare(name, durable=True)
    assert (client.declare(name), client.subscribe(name), client.delete(name)) == (2, 2, 2)
    assert client.create(name) == 0x11
    channel.queue_delete(name)


def test_what_is_published_is_confirmed_and_read_in_order(stream):
    client, name = stream
    assert client.declare(name) == 1
    client.publish(messages(*numbered(100)), first=1000)
    assert client.confirmed(100) == list(range(1000, 1100))
    assert client.subscribe(name) == 1
    assert client.bodies(100) == numbered(100)
    client.publish(messages(*numbered(50, 100)), first=5)
    assert sorted(client.confirmed(50)) == list(range(5, 55))
    assert client.bodies(50) == numbered(50, 100)


def test_publishers_are_known_by_id(stream):
    client, name = stream
    assert client.declare("nowhere") == 2
    assert client.declare(name, 1) == 1 and client.declare(name, 1) == 0x11
    assert client.declare(name, 2, "ref") == 1 and client.declare(name, 3, "ref") == 0x11
    assert client.declare(name, 4, "x" * 256) == 0x11
    client.publish(messages(b"a", b"b"), publisher=9, first=7)
    assert client.errors() == (9, [(7, 0x12), (8, 0x12)])
    assert client.code(DELETE_PUBLISHER, b"\x01") == 1 and client.code(DELETE_PUBLISHER, b"\x01") == 0x12
    assert client.declare(name, 1) == 1


def test_named_publishers_store_each_message_once(stream):
    client, name = stream
    assert client.sequence("ref", name) == (1, 0) and client.sequence("ref", "nowhere") == (2, 0)
    assert client.declare(name, 1, "ref") == 1
    client.publish(messages(b"one", b"two", b"three"), first=1)
    assert client.confirmed(3) == [1, 2, 3]
    client.publish(messages(b"two", b"three", b"four"), first=2)
    assert client.confirmed(3) == [2, 3, 4]
    assert client.sequence("ref", name) == (1, 4)
    client.subscribe(name)
    assert client.bodies(4) == [b"one", b"two", b"three", b"four"]


def test_subscriptions_are_known_by_id(stream):
    client, name = stream
    assert client.subscribe("nowhere") == 2
    assert client.subscribe(name) == 1 and client.subscribe(name) == 3
    assert client.code(UNSUBSCRIBE, b"\x01") == 1 and client.code(UNSUBSCRIBE, b"\x01") == 4
    assert client.subscribe(name, single_active_consumer="true") == 0x11
    assert client.subscribe(name, name="x" * 256) == 0x11
    client.credit(1, 200)
    frame = client.next(CREDIT, is_response=True)
    assert frame.body == struct.pack(">HB", 4, 200)


def test_all_ids_of_a_connection_can_be_used(stream):
    client, name = stream
    assert [client.declare(name, nth) for nth in range(256)] == [1] * 256
    assert [client.subscribe(name, nth, credit=1) for nth in range(256)] == [1] * 256
    assert client.declare(name, 255) == 0x11
    for nth in range(256):
        client.publish(messages(b"x"), publisher=nth)
        assert client.confirmed(1, nth) == [0]


def fill(client, name, chunks, publisher=1):
    """So many chunks of one message each."""
    assert client.declare(name, publisher) == 1
    for nth in range(chunks):
        client.publish(messages(b"%d" % nth), publisher=publisher, first=nth)
        client.confirmed(1, publisher)


def test_a_chunk_costs_a_credit_and_half_of_the_first_must_be_there(stream):
    client, name = stream
    fill(client, name, 20)
    assert client.subscribe(name, credit=10) == 1
    assert [client.chunk().id for _ in range(10)] == list(range(10))
    client.credit(5)
    assert client.is_quiet(DELIVER)
    client.credit(1)
    assert [client.chunk().id for _ in range(6)] == list(range(10, 16))
    assert client.is_quiet(DELIVER)


def test_credit_of_nothing_brings_nothing(stream):
    client, name = stream
    fill(client, name, 3)
    assert client.subscribe(name, credit=0) == 1
    assert client.is_quiet(DELIVER)
    client.credit(2)
    assert [client.chunk().id for _ in range(2)] == [0, 1] and client.is_quiet(DELIVER)


def test_where_a_consumer_begins(stream):
    client, name = stream
    fill(client, name, 5)
    time.sleep(0.01)
    middle_ms = int(time.time() * 1000)
    time.sleep(0.01)
    fill(client, name, 5, publisher=2)
    begins = [(FIRST, 0), (LAST, 9), (at_offset(3), 3), (at_time(middle_ms), 5), (at_time(0), 0)]
    for nth, (offset, first) in enumerate(begins):
        assert client.subscribe(name, 10 + nth, offset, credit=1) == 1
        assert client.chunk(10 + nth).id == first
    for nth, offset in enumerate([NEXT, at_offset(1000), at_time(middle_ms + 3_600_000)]):
        assert client.subscribe(name, 20 + nth, offset, credit=1) == 1
    assert client.is_quiet(DELIVER)
    client.publish(messages(b"new"), publisher=2, first=100)
    came = {client.next(DELIVER).body[0] for _ in range(3)}
    assert came == {20, 21, 22}


def test_version_2_of_deliveries_has_the_committed_chunk(stream):
    client, name = stream
    client.request(EXCHANGE_VERSIONS, array(struct.pack(">HHH", DELIVER, 1, 2)))
    fill(client, name, 3)
    client.subscribe(name, credit=1)
    chunk = client.chunk()
    assert (chunk.id, chunk.committed) == (0, 2)


def test_chunks_that_do_not_fit_a_frame_are_cut(broker):
    writer, reader, name = broker.client(), broker.client(frame_max=4096), broker.name()
    writer.create(name)
    writer.declare(name)
    bodies = [b"%d" % nth * 200 for nth in range(100)]
    writer.publish(messages(*bodies))
    writer.confirmed(100)
    reader.subscribe(name, credit=100)
    found, sizes = [], []
    while len(found) < 100:
        chunk = reader.chunk()
        sizes.append(chunk.bytes)
        assert chunk.id == len(found)
        found += chunk.bodies()
    assert found == bodies
    if broker.process:
        assert max(sizes) <= 4096 + 4


def test_offsets_are_stored_under_a_name(stream):
    client, name = stream

    def query(reference, stream=name):
        code, reader = client.request(QUERY_OFFSET, text(reference) + text(stream))
        return code, reader.number(8)
    assert query("me") == (0x13, 0) and query("me", "nowhere") == (2, 0)
    for offset in (5, 77):
        client.send(STORE_OFFSET, text("me") + text(name) + struct.pack(">Q", offset))
    client.send(STORE_OFFSET, text("x" * 256) + text(name) + struct.pack(">Q", 1))
    client.send(STORE_OFFSET, text("me") + text("nowhere") + struct.pack(">Q", 1))
    deadline = time.monotonic() + 5
    while query("me") != (1, 77):
        assert time.monotonic() < deadline
    assert query("you") == (0x13, 0)


def test_batches_pass_through_as_they_are(stream):
    client, name = stream
    packed = gzip.compress(b"".join(messages(b"a", b"b", b"c")))
    client.declare(name)
    client.publish([message(b"0"), batch([b"1", b"2"]), batch([b"a", b"b", b"c"], 1, packed=packed), message(b"6")])
    assert client.confirmed(4) == [0, 1, 2, 3]
    client.subscribe(name)
    found = []
    while not found or found[-1][0] < 6:
        found += client.chunk().messages()
        client.credit(1)
    assert [offset for offset, _ in found] == [0, 1, 2, 3, 6]
    assert found[3][1] == packed
    assert [body_of(sections) for _, sections in found[:3]] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("bad", [
    batch([b"x"], records=0), batch([b"x"], records=1000), batch([b"x"], 5, records=1),
    batch([b"x"], uncompressed=(64 << 20) + 1), batch([b"x"], 1, packed=b""),
])
def test_a_bad_batch_refuses_the_rest_of_its_frame(stream, bad):
    client, name = stream
    client.declare(name)
    client.publish([message(b"good"), bad, message(b"not taken")])
    assert client.errors() == (1, [(1, 0x11), (2, 0x11)]) and client.confirmed(1) == [0]
    client.publish(messages(b"next"), first=3)
    client.subscribe(name)
    assert client.bodies(2) == [b"good", b"next"]


def test_filters_leave_out_chunks(stream):
    client, name = stream
    client.declare(name)
    for nth, value in enumerate(["apples", "pears", None, "apples"]):
        client.publish(messages(b"%d" % nth), first=nth, filters=[value])
        client.confirmed(1)
    assert client.subscribe(name, 1, filter_0="apples") == 1
    assert client.subscribe(name, 2, filter_0="pears", filter_1="plums", match_unfiltered="true") == 1
    assert client.subscribe(name, 3) == 1
    assert client.bodies(2, 1) == [b"0", b"3"]
    assert client.bodies(2, 2) == [b"1", b"2"]
    assert client.bodies(4, 3) == [b"0", b"1", b"2", b"3"]


def test_metadata_tells_where_streams_are(stream):
    client, name = stream
    found = client.topology(name, "nowhere")
    code, leader, replicas = found[name]
    assert (code, leader[1], replicas) == (1, int(client.properties["advertised_port"]), [])
    assert found["nowhere"] == (2, None, [])


def test_users_of_a_deleted_stream_are_told(broker, stream):
    client, name = stream
    publisher, consumer, idle = broker.client(), broker.client(), broker.client()
    assert publisher.declare(name) == 1 and consumer.subscribe(name) == 1
    assert client.delete(name) == 1
    assert publisher.updated() == (6, name) and consumer.updated() == (6, name)
    assert idle.is_quiet(METADATA_UPDATE)
    publisher.publish(messages(b"x"))
    assert publisher.errors() == (1, [(0, 0x12)])
    assert consumer.code(UNSUBSCRIBE, b"\x01") == 4
    assert client.create(name) == 1 and publisher.declare(name) == 1
    publisher.publish(messages(b"again"))
    publisher.confirmed(1)


def test_numbers_of_a_stream(stream):
    client, name = stream

    def stats(of=name):
        code, reader = client.request(STREAM_STATS, text(of))
        return code, {reader.text(): reader.number(8, signed=True) for _ in range(reader.number(4))}
    assert stats("nowhere") == (2, {})
    code, empty = stats()
    assert code == 1 and (empty["first_chunk_id"], empty["committed_chunk_id"]) == (-1, -1)
    fill(client, name, 5)
    _, found = stats()
    assert (found["first_chunk_id"], found["committed_chunk_id"]) == (0, 4)


def test_offset_specifications_are_resolved(stream):
    client, name = stream

    def resolve(offset, of=name):
        code, reader = client.request(RESOLVE_OFFSET, text(of) + offset + mapping())
        return code, reader.number(2), reader.number(8)
    fill(client, name, 5)
    assert resolve(FIRST) == (1, 4, 0) and resolve(LAST) == (1, 4, 4) and resolve(NEXT) == (1, 4, 5)
    assert resolve(at_offset(3)) == (1, 4, 3) and resolve(at_time(0)) == (1, 4, 0)
    assert resolve(FIRST, "nowhere")[0] == 2


def create_super(client, name, partitions, keys, **arguments):
    return client.code(CREATE_SUPER_STREAM, text(name) + array(*map(text, partitions)) + array(*map(text, keys)) + mapping(**arguments))


def listed(client, key, *words):
    code, reader = client.request(key, b"".join(map(text, words)))
    return code, reader.texts()


def test_super_streams(broker):
    client, name = broker.client(), broker.name()
    partitions = [f"{name}-{nth}" for nth in range(12)]
    keys = [str(nth) for nth in range(12)]
    assert create_super(client, name, partitions, keys[1:]) == 0x11
    assert create_super(client, name, [partitions[0]] * 2, keys[:2]) == 0x11
    assert create_super(client, name, partitions, keys) == 1
    assert create_super(client, name, partitions, keys) == 5
    assert listed(client, PARTITIONS, name) == (1, partitions)
    assert listed(client, ROUTE, "7", name) == (1, [partitions[7]]) and listed(client, ROUTE, "x", name) == (1, [])
    assert listed(client, PARTITIONS, "nowhere") == (2, []) and listed(client, ROUTE, "7", "nowhere") == (2, [])
    assert client.declare(partitions[3]) == 1
    assert client.code(DELETE_SUPER_STREAM, text(name)) == 1
    assert client.updated() == (6, partitions[3])
    assert client.code(DELETE_SUPER_STREAM, text(name)) == 2 and client.declare(partitions[0]) == 2


def single(client, stream, subscription=1, **more):
    return client.subscribe(stream, subscription, single_active_consumer="true", name="group", **more)


def test_one_consumer_of_a_group_is_active(broker, stream):
    client, name = stream
    fill(client, name, 4)
    first, second = broker.client(), broker.client()
    assert single(first, name) == 1
    assert first.is_quiet(DELIVER)
    assert first.consumer_update(at_offset(2)) == (1, True)
    assert first.chunk().id == 2
    assert single(second, name) == 1
    assert second.is_quiet(CONSUMER_UPDATE) and second.is_quiet(DELIVER)
    second.credit(1)
    assert second.next(CREDIT, is_response=True).body == struct.pack(">HB", 0x11, 1)
    first.close()
    assert second.consumer_update() == (1, True)
    assert second.chunk().id == 0


def test_active_consumers_of_partitions_are_spread(broker):
    client, name = broker.client(), broker.name()
    partitions = [f"{name}-{nth}" for nth in range(2)]
    assert create_super(client, name, partitions, ["0", "1"]) == 1

    def join(consumer, partition):
        code = consumer.subscribe(partitions[partition], partition, single_active_consumer="true", name="app", super_stream=name)
        assert code == 1
    join(client, 0), join(client, 1)
    assert sorted([client.consumer_update(FIRST), client.consumer_update(FIRST)]) == [(0, True), (1, True)]
    other = broker.client()
    join(other, 0), join(other, 1)
    # The second partition goes to the second member, once the first has let go of it.
    assert client.consumer_update() == (1, False)
    assert other.consumer_update(FIRST) == (1, True)
    fill(client, partitions[1], 1)
    assert other.chunk(1).bodies() == [b"0"]
    other.close()
    assert client.consumer_update(FIRST) == (1, True)
    assert client.chunk(1).bodies() == [b"0"]
    assert client.code(DELETE_SUPER_STREAM, text(name)) == 1


def test_a_message_may_be_as_large_as_a_frame_lets_it(stream):
    client, name = stream
    client.declare(name)
    large = b"x" * 900_000
    client.publish(messages(large, b"small"))
    assert client.confirmed(2) == [0, 1]
    client.subscribe(name)
    assert client.bodies(2) == [large, b"small"]


def test_a_busy_publisher_gets_all_its_confirms(stream):
    client, name = stream
    client.declare(name)
    bodies = [b"y" * 100] * 500
    for nth in range(200):
        client.publish(messages(*bodies), first=nth * 500)
    assert client.confirmed(100_000) == list(range(100_000))
    client.subscribe(name, offset=at_offset(99_999), credit=1)
    chunk = client.chunk()
    assert chunk.id <= 99_999 < chunk.id + chunk.records


def test_a_consumer_that_does_not_read_takes_no_more_than_its_socket(stream):
    client, name = stream
    client.declare(name)
    for nth in range(60):
        client.publish(messages(*[b"z" * 500_000]), first=nth)
    client.confirmed(60)
    client.subscribe(name, credit=60)
    time.sleep(0.5)
    assert client.bodies(60) == [b"z" * 500_000] * 60


def test_confirms_of_a_deleted_publisher_do_not_come(stream):
    client, name = stream
    client.declare(name, 5)
    client.publish(messages(b"a"), publisher=5)
    client.confirmed(1, 5)
    assert client.code(DELETE_PUBLISHER, b"\x05") == 1
    assert client.is_quiet(PUBLISH_CONFIRM)
    assert pairs() == array() and data(b"") == b"\0\0\0\0"


def test_an_id_that_is_published_twice_is_confirmed_twice_and_never_twice_in_a_frame(stream):
    client, name = stream
    client.declare(name, 1, "me")
    items = [struct.pack(">Q", nth) + message(b"m") for nth in (1, 1, 2, 2)]
    client.send(PUBLISH, bytes([1]) + array(*items))
    seen = []
    while len(seen) < 4:
        reader = Reader(client.next(PUBLISH_CONFIRM).body[1:])
        ids = [reader.number(8) for _ in range(reader.number(4))]
        assert len(ids) == len(set(ids))
        seen += ids
    assert sorted(seen) == [1, 1, 2, 2]
    client.subscribe(name)
    assert client.bodies(2) == [b"m"] * 2
