"""RabbitMQ's own stream client for Python, as an application uses it."""

import asyncio

import pytest

rstream = pytest.importorskip("rstream")

from rstream import (AMQPMessage, CompressionType, Consumer, ConsumerOffsetSpecification, FilterConfiguration, OffsetSpecification,  # noqa: E402
                     OffsetType, Producer, Properties, RouteType, SuperStreamConsumer, SuperStreamProducer, amqp_decoder)
from rstream.superstream import SuperStreamCreationOption  # noqa: E402

FIRST = ConsumerOffsetSpecification(OffsetType.FIRST, None)


def at(broker):
    return {"host": "127.0.0.1", "port": broker.port, "username": "guest", "password": "guest"}


async def until(what, holds, deadline_s=15):
    for _ in range(deadline_s * 50):
        if holds():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not in time: {what}")


class Got:
    """The messages that consumers get."""

    def __init__(self):
        self.messages, self.offsets = [], []

    async def __call__(self, message, context):
        self.messages.append(message)
        self.offsets.append(context.offset)

    def bodies(self):
        return [bytes(message.body) for message in self.messages]


def test_messages_with_properties_filters_and_batches(broker):
    name = broker.name()

    async def run():
        confirmed = []
        async with Producer(**at(broker), filter_value_extractor=None) as producer:
            await producer.create_stream(name)
            for nth in range(1000):
                message = AMQPMessage(body=b"%d" % nth, properties=Properties(message_id=str(nth)))
                await producer.send(name, message, on_publish_confirm=lambda it: confirmed.append(it.is_confirmed))
            batch = [AMQPMessage(body=b"b%d" % nth) for nth in range(100)]
            await producer.send_sub_entry(name, batch, compression_type=CompressionType.Gzip,
                                          on_publish_confirm=lambda it: confirmed.append(it.is_confirmed))
            await until("confirms", lambda: len(confirmed) == 1001)
            assert all(confirmed)
            got = Got()
            async with Consumer(**at(broker)) as consumer:
                await consumer.subscribe(name, got, decoder=amqp_decoder, offset_specification=FIRST)
                await until("messages", lambda: len(got.messages) == 1100)
                await consumer.store_offset(name, "app", got.offsets[-1])
                await asyncio.sleep(0.2)
                assert await consumer.query_offset(name, "app") == 1099
            assert got.offsets[:1000] == list(range(1000))
            assert got.bodies() == [b"%d" % nth for nth in range(1000)] + [b"b%d" % nth for nth in range(100)]
            assert [message.properties.message_id for message in got.messages[:3]] == ["0", "1", "2"] or \
                got.messages[0].properties.message_id in (b"0", "0")
            await producer.delete_stream(name)
            assert not await producer.stream_exists(name)
    asyncio.run(run())


def test_filters_by_the_client(broker):
    name = broker.name()

    async def region(message):
        return message.application_properties["region"]

    async def run():
        async with Producer(**at(broker), filter_value_extractor=region) as producer:
            await producer.create_stream(name)
            for nth in range(50):
                where = "eu" if nth < 25 else "us"
                await producer.send_wait(name, AMQPMessage(body=b"%d" % nth, application_properties={"region": where}))
            got = Got()
            filtering = FilterConfiguration(values_to_filter=["us"], match_unfiltered=False,
                                            predicate=lambda message: message.application_properties[b"region"] == b"us")
            async with Consumer(**at(broker)) as consumer:
                await consumer.subscribe(name, got, decoder=amqp_decoder, offset_specification=FIRST, filter_input=filtering)
                await until("messages", lambda: len(got.messages) == 25)
            assert got.bodies() == [b"%d" % nth for nth in range(25, 50)]
            await producer.delete_stream(name)
    asyncio.run(run())


def test_super_streams_spread_messages_by_key(broker):
    name = broker.name()

    async def key(message):
        return message.application_properties["id"]

    async def run():
        option = SuperStreamCreationOption(n_partitions=3)
        async with SuperStreamProducer(**at(broker), super_stream=name, routing=RouteType.Hash, routing_extractor=key,
                                       super_stream_creation_option=option) as producer:
            for nth in range(90):
                await producer.send(AMQPMessage(body=b"%d" % nth, application_properties={"id": str(nth)}))
            await asyncio.sleep(0.5)
        got, updates = Got(), []

        async def update(is_active, _):
            updates.append(is_active)
            return OffsetSpecification(OffsetType.FIRST, 0)
        consumer = SuperStreamConsumer(**at(broker), super_stream=name)
        await consumer.start()
        await consumer.subscribe(callback=got, decoder=amqp_decoder, offset_specification=FIRST,
                                 properties={"single-active-consumer": "true", "name": "app", "super-stream": name},
                                 consumer_update_listener=update)
        await until("messages", lambda: len(got.messages) == 90)
        assert sorted(map(int, got.bodies())) == list(range(90)) and updates == [True] * 3
        await consumer.close()
    asyncio.run(run())
