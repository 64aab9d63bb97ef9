"""aio-pika: asyncio, robust connections that restore themselves."""

import asyncio
import datetime
import decimal
import os

import aio_pika
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed, DeliveryError, PublishError
from aio_pika.patterns import RPC, Master


def asynchronous(test):
    """Runs an async test with a hard deadline; no plugin needed."""
    import functools

    @functools.wraps(test)
    def run(*args, **kwargs):
        async def bounded():
            async with asyncio.timeout(75):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


async def take(queue, count, timeout_s=10):
    got = []
    async with queue.iterator(timeout=timeout_s) as messages:
        async for message in messages:
            got.append(message)
            await message.ack()
            if len(got) == count:
                return got
    return got


@asynchronous
async def test_hello_world(url):
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(Message(b"Hello World!"), routing_key=queue.name)
        [message] = await take(queue, 1)
        assert (message.body, message.redelivered, message.routing_key) == (b"Hello World!", False, queue.name)


@asynchronous
async def test_work_queue_is_shared_fairly(url, unique, durable):
    async with await aio_pika.connect_robust(url) as connection:
        name = durable.queue(unique("tasks"))
        publisher = await connection.channel()
        await publisher.declare_queue(name, durable=True)
        done = {"slow": 0, "fast": 0}
        finished = asyncio.Event()

        def worker(who, pause_s):
            async def work(message):
                async with message.process():
                    await asyncio.sleep(pause_s)
                    done[who] += 1
                    if sum(done.values()) == 30:
                        finished.set()
            return work

        for who, pause_s in (("slow", 0.5), ("fast", 0.001)):
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=1)
            queue = await channel.declare_queue(name, durable=True)
            await queue.consume(worker(who, pause_s))
        for i in range(30):
            message = Message(b"%d" % i, delivery_mode=DeliveryMode.PERSISTENT)
            await publisher.default_exchange.publish(message, routing_key=name)
        await asyncio.wait_for(finished.wait(), 20)
        assert done["slow"] <= 3 and done["fast"] >= 27, done


@asynchronous
async def test_publish_subscribe_routing_and_topics(url, unique, durable):
    async with await aio_pika.connect_robust(url) as connection:
        channel = await connection.channel()
        cases = {
            ExchangeType.FANOUT: ("", ["a", "b.c", ""]),
            ExchangeType.DIRECT: ("b.c", ["b.c"]),
            ExchangeType.TOPIC: ("b.*", ["b.c"]),
        }
        for kind, (binding, expected) in cases.items():
            exchange = await channel.declare_exchange(durable.exchange(unique(kind.value)), kind)
            queue = await channel.declare_queue(exclusive=True)
            await queue.bind(exchange, binding)
            for key in ("a", "b.c", ""):
                await exchange.publish(Message(key.encode()), routing_key=key, mandatory=False)
            assert [m.body.decode() for m in await take(queue, len(expected))] == expected, kind


@asynchronous
async def test_headers_exchange(url, unique, durable):
    async with await aio_pika.connect_robust(url) as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(durable.exchange(unique("headers")), ExchangeType.HEADERS)
        every, any_of = await channel.declare_queue(exclusive=True), await channel.declare_queue(exclusive=True)
        await every.bind(exchange, arguments={"x-match": "all", "kind": "report", "pages": 3})
        await any_of.bind(exchange, arguments={"x-match": "any", "kind": "report", "pages": 3})
        for body, headers in ((b"both", {"kind": "report", "pages": 3}), (b"one", {"kind": "report", "pages": 4}), (b"none", {"kind": "memo"})):
            await exchange.publish(Message(body, headers=headers), routing_key="", mandatory=False)
        assert [m.body for m in await take(every, 1)] == [b"both"]
        assert [m.body for m in await take(any_of, 2)] == [b"both", b"one"]


@asynchronous
async def test_exchange_to_exchange_binding(url, unique, durable):
    async with await aio_pika.connect_robust(url) as connection:
        channel = await connection.channel()
        source = await channel.declare_exchange(durable.exchange(unique("source")), ExchangeType.TOPIC)
        target = await channel.declare_exchange(durable.exchange(unique("target")), ExchangeType.FANOUT)
        await target.bind(source, "eu.#")
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(target)
        await source.publish(Message(b"yes"), routing_key="eu.de.berlin")
        await source.publish(Message(b"no"), routing_key="us.ny", mandatory=False)
        assert [m.body for m in await take(queue, 1)] == [b"yes"]


@asynchronous
async def test_rpc_with_direct_reply_to(url, unique, durable):
    async with await aio_pika.connect_robust(url) as connection:
        server, client = await connection.channel(), await connection.channel()
        requests = await server.declare_queue(durable.queue(unique("rpc")), durable=True)

        async def answer(message):
            async with message.process():
                assert message.reply_to.startswith("amq.rabbitmq.reply-to.")
                reply = Message(message.body.upper(), correlation_id=message.correlation_id)
                await server.default_exchange.publish(reply, routing_key=message.reply_to)

        await requests.consume(answer)
        replies = await client.get_queue("amq.rabbitmq.reply-to", ensure=False)
        got = asyncio.Queue()
        await replies.consume(got.put, no_ack=True)
        for i in range(50):
            message = Message(b"call %d" % i, correlation_id=str(i), reply_to="amq.rabbitmq.reply-to")
            await client.default_exchange.publish(message, routing_key=requests.name)
        answers = [await asyncio.wait_for(got.get(), 10) for _ in range(50)]
        assert {m.correlation_id: m.body for m in answers} == {str(i): b"CALL %d" % i for i in range(50)}


@asynchronous
async def test_rpc_and_master_worker_patterns_of_the_library(url, unique, durable):
    async with await aio_pika.connect_robust(url) as connection:
        channel = await connection.channel()
        rpc = await RPC.create(channel, exclusive=True)   # its own default, below, is refused by RabbitMQ 4.3
        method = durable.queue(unique("multiply"))

        async def multiply(*, x, y):
            return x * y

        await rpc.register(method, multiply, auto_delete=False, durable=True)
        assert await asyncio.gather(*(rpc.call(method, {"x": i, "y": 3}) for i in range(20))) == [i * 3 for i in range(20)]
        with pytest.raises(Exception) as raised:
            await rpc.call(method, {"x": 1})
        assert "y" in str(raised.value)

        master, seen = Master(await connection.channel()), asyncio.Queue()

        async def work(*, task_id):
            await seen.put(task_id)

        name = durable.queue(unique("worker"))
        await master.create_worker(name, work, durable=True)
        for i in range(10):
            await master.create_task(name, {"task_id": i})
        assert [await asyncio.wait_for(seen.get(), 10) for _ in range(10)] == list(range(10))


@asynchronous
async def test_rpc_pattern_with_the_transient_queue_that_the_library_declares_by_default(url, unique, old_patterns):
    async with await aio_pika.connect_robust(url) as connection:
        rpc, method = await RPC.create(await connection.channel()), unique("shout")

        async def shout(*, text):
            return text.upper()

        await rpc.register(method, shout, auto_delete=True)
        assert await rpc.call(method, {"text": "hello"}) == "HELLO"


@asynchronous
async def test_confirms_concurrently_and_mandatory_returns(url, unique, durable):
    async with await aio_pika.connect_robust(url) as connection:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        queue = await channel.declare_queue(durable.queue(unique("confirms")), durable=True)

        async def publish(i):
            return await channel.default_exchange.publish(Message(b"%d" % i, delivery_mode=DeliveryMode.PERSISTENT), routing_key=queue.name)

        confirmed = await asyncio.gather(*(publish(i) for i in range(1000)))
        assert len(confirmed) == 1000
        seen = await (await connection.channel()).declare_queue(queue.name, durable=True, passive=True)
        assert seen.declaration_result.message_count == 1000
        with pytest.raises(PublishError) as raised:
            await channel.default_exchange.publish(Message(b"nowhere"), routing_key=unique("missing"))
        assert "NO_ROUTE" in str(raised.value)
        purged = await queue.purge()
        assert purged.message_count == 1000


@asynchronous
async def test_overflow_nacks(url):
    async with await aio_pika.connect_robust(url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        await channel.default_exchange.publish(Message(b"1"), routing_key=queue.name)
        with pytest.raises(DeliveryError):
            await channel.default_exchange.publish(Message(b"2"), routing_key=queue.name)


@asynchronous
async def test_priorities_ttl_and_dead_lettering(url):
    async with await aio_pika.connect_robust(url) as connection:
        channel = await connection.channel()
        dead = await channel.declare_queue(exclusive=True)
        ranked = await channel.declare_queue(exclusive=True, arguments={"x-max-priority": 5})
        brief = await channel.declare_queue(exclusive=True, arguments={"x-message-ttl": 50, "x-dead-letter-exchange": "",
                                                                       "x-dead-letter-routing-key": dead.name})
        for priority in (1, 5, 3):
            await channel.default_exchange.publish(Message(b"%d" % priority, priority=priority), routing_key=ranked.name)
        assert [m.body for m in await take(ranked, 3)] == [b"5", b"3", b"1"]
        await channel.default_exchange.publish(Message(b"gone"), routing_key=brief.name)
        [message] = await take(dead, 1)
        assert message.headers["x-death"][0]["reason"] == "expired"
        assert message.headers["x-first-death-queue"] == brief.name


@asynchronous
async def test_header_values_of_all_types_round_trip(url):
    headers = {
        "bool": True, "int8": -5, "int16": 300, "int32": 70_000, "int64": 2**40, "double": 3.25, "decimal": decimal.Decimal("3.14"),
        "text": "Grüße, 世界", "bytes": bytearray(b"\x00\xff"), "time": datetime.datetime(2026, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc),
        "void": None, "table": {"a": [1, {"b": "c"}]}, "array": [1, "two", None, True, 2.5],
    }
    async with await aio_pika.connect_robust(url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(Message(b"", headers=headers), routing_key=queue.name)
        [message] = await take(queue, 1)
        assert dict(message.headers) == headers


@asynchronous
async def test_large_message(url):
    body = os.urandom(10 * 1024 * 1024)
    async with await aio_pika.connect_robust(url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(Message(body), routing_key=queue.name)
        [message] = await take(queue, 1)
        assert message.body == body


@asynchronous
async def test_many_channels(url):
    async with await aio_pika.connect_robust(url) as connection:
        channels = [await connection.channel() for _ in range(100)]
        queues = await asyncio.gather(*(channel.declare_queue(exclusive=True) for channel in channels))
        await asyncio.gather(*(channel.default_exchange.publish(Message(queue.name.encode()), routing_key=queue.name)
                               for channel, queue in zip(channels, queues)))
        got = [(await queue.get(timeout=5)).body.decode() for queue in queues]
        assert got == [queue.name for queue in queues]


@asynchronous
async def test_channel_errors_have_their_own_exceptions(url, unique, durable):
    async with await aio_pika.connect_robust(url) as connection:
        name = unique("missing")
        with pytest.raises(ChannelNotFoundEntity) as raised:
            await (await connection.channel()).declare_queue(name, passive=True)
        assert f"NOT_FOUND - no queue '{name}' in vhost '/'" in str(raised.value)
        exchange = durable.exchange(unique("typed"))
        await (await connection.channel()).declare_exchange(exchange, ExchangeType.FANOUT)
        with pytest.raises(ChannelPreconditionFailed) as raised:
            await (await connection.channel()).declare_exchange(exchange, ExchangeType.DIRECT)
        text = f"inequivalent arg 'type' for exchange '{exchange}' in vhost '/': received 'direct' but current is 'fanout'"
        assert text in str(raised.value)
        assert (await connection.channel()).is_initialized


@asynchronous
async def test_consumer_ends_when_its_queue_is_deleted(url, unique, durable):
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(durable.queue(unique("doomed")), durable=True)
        await queue.consume(asyncio.Queue().put)
        underlay = await channel.get_underlay_channel()
        assert len(underlay.consumers) == 1
        await (await connection.channel()).queue_delete(queue.name)
        for _ in range(100):
            if not underlay.consumers:
                break
            await asyncio.sleep(0.05)
        assert not underlay.consumers, "the broker's basic.cancel must reach the client"


@asynchronous
async def test_reconnect_after_a_broker_restart(url, unique, durable, restart):
    """A robust connection declares, binds and consumes again by itself: exclusive queue and durable queue alike."""
    async with await aio_pika.connect_robust(url, reconnect_interval=0.2) as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(durable.exchange(unique("robust")), ExchangeType.FANOUT, durable=True)
        kept = await channel.declare_queue(durable.queue(unique("kept")), durable=True)
        fleeting = await channel.declare_queue(unique("fleeting"), exclusive=True)
        await kept.bind(exchange)
        await fleeting.bind(exchange)
        from_kept, from_fleeting = asyncio.Queue(), asyncio.Queue()

        async def on_kept(message):
            await message.ack()
            await from_kept.put(message.body)

        await kept.consume(on_kept)
        await fleeting.consume(lambda message: from_fleeting.put(message.body), no_ack=True)
        await exchange.publish(Message(b"before", delivery_mode=DeliveryMode.PERSISTENT), routing_key="")
        assert await asyncio.wait_for(from_kept.get(), 5) == await asyncio.wait_for(from_fleeting.get(), 5) == b"before"

        reconnected = asyncio.Event()
        connection.reconnect_callbacks.add(lambda *_: reconnected.set())
        restarting = restart()
        await asyncio.wait_for(reconnected.wait(), 45)
        restarting.finished()
        for _ in range(100):
            try:
                await exchange.publish(Message(b"after", delivery_mode=DeliveryMode.PERSISTENT), routing_key="", timeout=5)
                break
            except Exception:   # the channel may still be restoring itself
                await asyncio.sleep(0.1)
        assert await asyncio.wait_for(from_kept.get(), 20) == b"after"
        assert await asyncio.wait_for(from_fleeting.get(), 20) == b"after"
