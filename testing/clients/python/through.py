#!/usr/bin/env python3
"""As testing/clients/go/through: publishes and consumes through a cluster whose nodes come and go, until standard input ends."""

import contextlib
import json
import sys
import threading
import time

import pika

PAUSE_S = 0.1
RECEIVE_WAIT_S = 60
ENDS = (pika.exceptions.AMQPError, OSError)


class Client:
    def __init__(self, queue, addresses):
        self.queue, self.addresses = queue, [address.rsplit(":", 1) for address in addresses]
        self.confirmed, self.received, self.connects = set(), set(), 0
        self.stopped, self.ended = threading.Event(), threading.Event()

    def connect(self, nth):
        host, port = self.addresses[nth % len(self.addresses)]
        options = {"heartbeat": 5, "blocked_connection_timeout": 60, "socket_timeout": 3}
        connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port), **options))
        self.connects += 1
        return connection

    def publish_all(self):
        nth = round = 0
        while not self.stopped.is_set():
            with contextlib.suppress(*ENDS), contextlib.closing(self.connect(round)) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                while not self.stopped.is_set():
                    body = f"pika {nth}"
                    try:
                        channel.basic_publish("", self.queue, body, pika.BasicProperties(delivery_mode=2), mandatory=True)
                    except (pika.exceptions.NackError, pika.exceptions.UnroutableError):
                        time.sleep(PAUSE_S)
                        continue
                    self.confirmed.add(body)
                    nth += 1
                    time.sleep(0.002)
            # A message that was on its way when the connection ended may be there or not: it counts for nothing.
            nth, round = nth + 1, round + 1
            time.sleep(PAUSE_S)

    def consume_all(self):
        round = 1
        while not self.ended.is_set():
            with contextlib.suppress(*ENDS), contextlib.closing(self.connect(round)) as connection:
                channel = connection.channel()
                channel.basic_qos(prefetch_count=50)
                for method, _, body in channel.consume(self.queue, inactivity_timeout=0.5):
                    if method:
                        self.received.add(body.decode())
                        channel.basic_ack(method.delivery_tag)
                    if self.ended.is_set():
                        break
            round += 1
            time.sleep(PAUSE_S)


def main():
    client = Client(sys.argv[1], sys.argv[2:])
    publisher, consumer = threading.Thread(target=client.publish_all), threading.Thread(target=client.consume_all)
    publisher.start()
    consumer.start()
    sys.stdin.read()
    client.stopped.set()
    publisher.join()
    until = time.monotonic() + RECEIVE_WAIT_S
    while client.confirmed - client.received and time.monotonic() < until:
        time.sleep(PAUSE_S)
    client.ended.set()
    consumer.join()
    lost = sorted(client.confirmed - client.received)
    print(json.dumps({"confirmed": len(client.confirmed), "received": len(client.received), "lost": lost, "connects": client.connects}))


if __name__ == "__main__":
    main()
