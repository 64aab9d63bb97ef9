#!/usr/bin/env python3
"""How long pages of very many queues take, how many requests at once are answered, and what a publisher feels of it.

    times.py --warren target/release/warren [--queues 100000] [--rounds 20] [--requests 10000]

Prints the median and the slowest of so many rounds of each request and the CPU time that the server took for one, in milliseconds, with one
client that asks one after the other. The CPU time says something on a machine that does other things, too.
"""

import argparse
import base64
import multiprocessing
import os
import pathlib
import resource
import select
import shutil
import socket
import statistics
import tempfile
import time

import pika

from api import Api
from conftest import Broker

PAGES = ["page=1&page_size=100", "page={last}&page_size=100", "page=1&page_size=100&sort=messages&sort_reverse=true",
         "page=1&page_size=100&sort=message_stats.publish_details.rate&sort_reverse=true", "page=1&page_size=100&name=99", "page=1&page_size=100&name=9%2B$&use_regex=true",
         "page=1&page_size=500&columns=name,messages"]


def many(count):
    queues = [{"vhost": "/", "name": f"q{at:06}", "durable": True, "auto_delete": False, "arguments": {}} for at in range(count)]
    return {"queues": queues}


class Publisher:
    """A process that publishes a message every five milliseconds, waits for its confirm, and remembers how long that took."""

    def __init__(self, url):
        self.ours, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=publish, args=(url, theirs), daemon=True)
        self.process.start()

    def worst(self):
        self.ours.send("tell")
        took = sorted(self.ours.recv())
        return f"{took[len(took) // 2]:.2f} / {took[-1]:.1f}" if took else "-"

    def stop(self):
        self.process.terminate()
        self.process.join()


def publish(url, told):
    channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
    channel.confirm_delivery()
    took_ms = []
    while True:
        began = time.perf_counter()
        channel.basic_publish("", "q000000", b"x")
        took_ms.append((time.perf_counter() - began) * 1000)
        if told.poll(0.005):
            told.recv()
            told.send(took_ms)
            took_ms = []


def cpu_ms(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def timed(broker, api, path, rounds, publisher):
    publisher.worst()
    took, size, cpu = [], 0, cpu_ms(broker.pid)
    for _ in range(rounds):
        began = time.perf_counter()
        answer = api("GET", path)
        took.append((time.perf_counter() - began) * 1000)
        assert answer.status == 200, answer
        size = len(answer.body)
    cpu = (cpu_ms(broker.pid) - cpu) / rounds
    print(f"{statistics.median(took):9.1f} {max(took):9.1f} {cpu:7.1f} {size:10}  {publisher.worst():>14}  {path}", flush=True)


def at_once(address, count, waits_for_all=False):
    """So many connections at once, each of which asks when it is there, or when all are; counts the statuses, and what was closed without one."""
    login = base64.b64encode(b"guest:guest").decode()
    text = f"GET /api/queues?page=1&page_size=10 HTTP/1.1\r\nhost: x\r\nauthorization: Basic {login}\r\nconnection: close\r\n\r\n".encode()
    events, seen, began = select.epoll(), {}, time.perf_counter()
    clients = {}
    while (clients or count) and time.perf_counter() - began < 120:
        for _ in range(min(count, 100)):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(address)
            clients[client.fileno()] = [client, b""]
            count -= 1
            try:
                if waits_for_all:
                    raise BlockingIOError
                client.send(text)
                events.register(client, select.EPOLLIN)
            except OSError:                     # not connected yet
                events.register(client, select.EPOLLOUT)
        for number, what in [] if waits_for_all and count else events.poll(0 if count else 1):
            client, answer = clients[number]
            try:
                if what & select.EPOLLOUT:
                    client.send(text)
                    events.modify(number, select.EPOLLIN)
                    continue
                piece = client.recv(1 << 16)
            except OSError as error:
                piece, answer = b"", answer or f"- {type(error).__name__}".encode()
            clients[number][1] = answer + piece[: 64 - len(answer)] if len(answer) < 64 else answer
            if not piece:
                status = (answer or b"- closed").split()[1].decode()
                seen[status] = seen.get(status, 0) + 1
                events.unregister(number)
                clients.pop(number)
                client.close()
    return seen | ({"still waiting": len(clients)} if clients else {}), time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warren", required=True, help="the binary")
    parser.add_argument("--queues", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=10_000)
    options = parser.parse_args()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    os.environ["WARREN_BIN"] = options.warren
    folder = pathlib.Path(tempfile.mkdtemp(prefix="warren-times-"))
    broker = Broker(folder)
    try:
        run(broker, options)
    finally:
        broker.stop()
        shutil.rmtree(folder)


def run(broker, options):
    api = Api(broker.http)
    began = time.perf_counter()
    assert api("POST", "/api/definitions", many(options.queues), timeout=300).status == 204
    print(f"{options.queues} queues imported in {time.perf_counter() - began:.1f} s, {broker.memory_kib() >> 10} MiB in memory")
    publisher = Publisher(broker.amqp)
    time.sleep(1)
    print(f"a publisher with nobody asking: {publisher.worst()} ms (median / slowest of its confirms)")
    print("median ms   slowest  CPU ms      bytes   publisher, ms  request")
    last = max(1, options.queues // 100)
    for page in PAGES:
        timed(broker, api, "/api/queues?" + page.format(last=last), options.rounds, publisher)
    for path in ("/api/overview", "/api/queues?disable_stats=true&columns=name", "/api/queues"):
        timed(broker, api, path, max(1, options.rounds // 10) if path == "/api/queues" else options.rounds, publisher)
    publisher.stop()
    before = broker.memory_kib()
    seen, took_s = at_once(broker.address, options.requests)
    print(f"{options.requests} requests at once: {seen} in {took_s:.1f} s, {(broker.memory_kib() - before) >> 10} MiB more in memory")


if __name__ == "__main__":
    main()
