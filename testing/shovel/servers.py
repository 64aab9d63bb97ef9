"""Brokers that shovels move messages between, and what tests do with them: publish with confirms, read all, ask, wait.

Knows a Warren that is killed and comes back on its port, and a RabbitMQ that somebody else runs.
"""

import asyncio
import socket
import time
import urllib.parse

import aio_pika
import pika

import served
from api import Api, quoted

DEADLINE_S = 40


def until(what, holds, deadline_s=DEADLINE_S):
    return served.until(what, holds, deadline_s)


class Amqp(served.Amqp):
    """A broker of the tests; subclasses have `url` and `api`."""

    def declare(self, queue, **options):
        channel = self.channel()
        channel.queue_declare(queue, durable=True, **options)
        channel.connection.close()

    def delete(self, *queues):
        channel = self.channel()
        for queue in queues:
            channel.queue_delete(queue)
        channel.connection.close()

    def count(self, queue):
        channel = self.channel()
        try:
            return channel.queue_declare(queue, passive=True).method.message_count
        except pika.exceptions.ChannelClosedByBroker:
            return 0
        finally:
            channel.connection.close()

    def publish(self, queue, bodies, exchange="", **properties):
        """Persistent messages; returns when all are confirmed."""

        async def run():
            connection = await aio_pika.connect(self.url)
            channel = await connection.channel()
            to = await channel.get_exchange(exchange, ensure=False) if exchange else channel.default_exchange
            waiting = []
            for body in bodies:
                message = aio_pika.Message(body, delivery_mode=2, **properties)
                waiting.append(asyncio.ensure_future(to.publish(message, queue, timeout=60)))
                if len(waiting) == 1000:
                    await asyncio.gather(*waiting)
                    waiting.clear()
            await asyncio.gather(*waiting)
            await connection.close()

        asyncio.run(run())

    def read(self, queue, wait_s=0.3):
        """All messages, as (method, properties, body); ends when those are there that were ready, and none comes for `wait_s`."""
        channel = self.channel()
        channel.basic_qos(prefetch_count=1000)
        found, ready = [], channel.queue_declare(queue, passive=True).method.message_count
        end = time.monotonic() + DEADLINE_S
        for method, properties, body in channel.consume(queue, inactivity_timeout=wait_s):
            if method is None:
                if len(found) < ready and time.monotonic() < end:
                    continue
                break
            found.append((method, properties, body))
            if len(found) % 500 == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)
        if len(found) % 500:
            channel.basic_ack(found[-1][0].delivery_tag, multiple=True)
        channel.cancel()
        channel.connection.close()
        return found

    def bodies(self, queue):
        return [body for _, _, body in self.read(queue)]

    def shovel(self, name, vhost="/", **keys):
        """Sets a shovel's parameter; underscores stand for hyphens. Between queues of this node unless said otherwise."""
        value = {"src-uri": "amqp://", "dest-uri": "amqp://"}
        value.update((key.replace("_", "-"), value) for key, value in keys.items())
        path = f"/api/parameters/shovel/{quoted(vhost)}/{quoted(name)}"
        return self.api("PUT", path, {"value": {key: of for key, of in value.items() if of is not None}})

    def has_parameter(self, name, vhost="/"):
        return self.api("GET", f"/api/parameters/shovel/{quoted(vhost)}/{quoted(name)}").status == 200

    def state(self, name):
        """The shovel as `GET /api/shovels` has it; empty when there is none."""
        return next((it for it in self.api.get("/api/shovels") if it["name"] == name), {})

    def until_state(self, name, state, deadline_s=DEADLINE_S):
        return until(f"{name} is {state}", lambda: (it := self.state(name)).get("state") == state and it, deadline_s)


class Warren(Amqp, served.Server):
    def __init__(self, binary, folder, config):
        super().__init__(binary, folder, config)
        self.data, self.log = self.process.data, folder / "log"

    def start(self):
        super().start()
        self.api = Api(f"http://{self.process.http}")
        return self


class RabbitMQ(Amqp):
    """One that runs already; its objects are deleted by whoever made them."""

    def __init__(self, port, http_port):
        self.url, self.api = f"amqp://guest:guest@127.0.0.1:{port}/%2F", Api(f"http://127.0.0.1:{http_port}")

    def is_there(self):
        place = urllib.parse.urlsplit(self.url)
        try:
            socket.create_connection((place.hostname, place.port), 1).close()
            return self.api("GET", "/api/overview", timeout=5).status == 200
        except OSError:
            return False

    def has_shovels(self):
        return self.api("GET", "/api/shovels").status == 200
