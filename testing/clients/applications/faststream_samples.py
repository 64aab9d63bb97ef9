"""FastStream against a broker: subscribers by exchange type, publishers, requests, acknowledgements, quorum queues and streams."""

import asyncio
import os
import uuid

import pytest
from faststream import AckPolicy
from faststream.rabbit import Channel, ExchangeType, QueueType, RabbitBroker, RabbitExchange, RabbitQueue


def name(word):
    return f"faststream-{word}-{uuid.uuid4().hex[:8]}"


async def seen(results, count):
    return [await asyncio.wait_for(results.get(), 10) for _ in range(count)]


async def _pipeline(broker, results):
    source, sink = name("in"), name("out")

    @broker.subscriber(RabbitQueue(source, auto_delete=True))
    @broker.publisher(RabbitQueue(sink, auto_delete=True))
    async def double(number: int) -> int:
        return 2 * number

    @broker.subscriber(RabbitQueue(sink, auto_delete=True))
    async def keep(number: int):
        await results.put(number)

    await broker.start()
    for number in range(20):
        await broker.publish(number, source)
    assert sorted(await seen(results, 20)) == [2 * number for number in range(20)]


async def _exchanges(broker, results):
    topic = RabbitExchange(name("topic"), type=ExchangeType.TOPIC, auto_delete=True)
    headers = RabbitExchange(name("headers"), type=ExchangeType.HEADERS, auto_delete=True)
    fanout = RabbitExchange(name("fanout"), type=ExchangeType.FANOUT, auto_delete=True)

    @broker.subscriber(RabbitQueue(name("logs"), auto_delete=True, routing_key="logs.#"), topic)
    async def by_topic(text: str):
        await results.put(("topic", text))

    @broker.subscriber(RabbitQueue(name("h"), auto_delete=True, bind_arguments={"kind": 1, "x-match": "all"}), headers)
    async def by_headers(text: str):
        await results.put(("headers", text))

    @broker.subscriber(RabbitQueue(name("f"), auto_delete=True), fanout)
    async def by_fanout(text: str):
        await results.put(("fanout", text))

    await broker.start()
    await broker.publish("a", exchange=topic, routing_key="logs.info.x")
    await broker.publish("lost", exchange=topic, routing_key="other")
    await broker.publish("b", exchange=headers, headers={"kind": 1})
    await broker.publish("lost", exchange=headers, headers={"kind": 2})
    await broker.publish("c", exchange=fanout)
    assert sorted(await seen(results, 3)) == [("fanout", "c"), ("headers", "b"), ("topic", "a")]
    assert results.empty()


async def _request(broker, _results):
    queue = RabbitQueue(name("rpc"), auto_delete=True)

    @broker.subscriber(queue)
    async def answer(text: str) -> str:
        return text.upper()

    await broker.start()
    replies = await asyncio.gather(*(broker.request(f"hello {n}", queue, timeout=10) for n in range(10)))
    assert [await reply.decode() for reply in replies] == [f"HELLO {n}" for n in range(10)]


async def _redelivery(broker, results):
    queue = RabbitQueue(name("nack"), auto_delete=True)

    @broker.subscriber(queue, ack_policy=AckPolicy.NACK_ON_ERROR)
    async def fail_once(text: str):
        await results.put(text)
        if results.qsize() == 1:
            raise RuntimeError("once")

    await broker.start()
    await broker.publish("again", queue)
    while results.qsize() < 2:
        await asyncio.sleep(0.05)


async def _dead_letters(broker, results):
    dead = RabbitQueue(name("dead"), auto_delete=True)
    queue = RabbitQueue(name("work"), auto_delete=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name})

    @broker.subscriber(queue, ack_policy=AckPolicy.REJECT_ON_ERROR)
    async def fail(_text: str):
        raise RuntimeError("always")

    @broker.subscriber(dead)
    async def keep(text: str):
        await results.put(text)

    await broker.start()
    await broker.publish("letter", queue)
    assert await seen(results, 1) == ["letter"]


async def _quorum(broker, results):
    queue = RabbitQueue(name("quorum"), queue_type=QueueType.QUORUM, durable=True)

    @broker.subscriber(queue)
    async def keep(text: str):
        await results.put(text)

    await broker.start()
    for text in "abc":
        await broker.publish(text, queue, persist=True, mandatory=True)
    assert sorted(await seen(results, 3)) == ["a", "b", "c"]
    await (await broker.declare_queue(queue)).delete(if_unused=False, if_empty=False)


async def _stream(broker, results):
    queue = RabbitQueue(name("stream"), queue_type=QueueType.STREAM, durable=True)
    await broker.connect()
    declared = await broker.declare_queue(queue)
    for number in range(5):
        await broker.publish(number, queue)

    @broker.subscriber(queue, consume_args={"x-stream-offset": "first"})
    async def keep(number: int):
        await results.put(number)

    await broker.start()
    assert await seen(results, 5) == list(range(5))
    await declared.delete(if_unused=False, if_empty=False)


SCENARIOS = [_pipeline, _exchanges, _request, _redelivery, _dead_letters, _quorum, _stream]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[it.__name__.strip("_") for it in SCENARIOS])
def test_sample(scenario):
    """A scenario gets a broker that is connected, whose subscribers are not started, and a queue for its results."""

    async def main():
        async with RabbitBroker(os.environ["URL"], default_channel=Channel(prefetch_count=10)) as broker:
            await asyncio.wait_for(scenario(broker, asyncio.Queue()), 20)

    asyncio.run(main())
