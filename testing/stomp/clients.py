"""Servers and clients of the STOMP suite: stomp.py with what it has received in lists, plain sockets, and AMQP beside it.

    client = broker.client(version="1.1")
    client.subscribe("/queue/a", id="1"); client.send("/queue/a", "x"); client.message().body
    broker.talk(CONNECT, frame("SEND", "x", destination="/queue/a"))      # the frames of the answer
"""

import queue
import re
import socket

import stomp
import websocket
from stomp.adapter.ws import WSStompConnection

import served
from served import DEADLINE_S

CONNECT = "CONNECT\naccept-version:1.0,1.1,1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0"
CONNECT_10 = "CONNECT\nlogin:guest\npasscode:guest\n\n\0"
KINDS = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}


def frame(command, body="", **headers):
    """Bytes of a frame; underscores in names of headers stand for hyphens."""
    lines = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items())
    return f"{command}\n{lines}\n{body}\0"


class Frame:
    """A frame as it came: command, headers (the first of a name counts), body."""

    def __init__(self, data):
        head, _, self.body = data.partition("\n\n")
        self.command, *lines = head.split("\n")
        self.headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            self.headers.setdefault(name, value)

    def __repr__(self):
        return f"{self.command} {self.headers} {self.body!r}"


class Socket:
    """A connection that writes and reads bytes."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self.bytes = b""

    def write(self, *frames):
        self.socket.sendall("".join(frames).encode())

    def read(self):
        """The next frame; `None` at the end of the stream."""
        while True:
            self.bytes = self.bytes.lstrip(b"\n")
            head, end, rest = self.bytes.partition(b"\n\n")
            length = re.search(rb"\ncontent-length:(\d+)", head)
            size = int(length[1]) if length else rest.find(b"\0")
            if end and 0 <= size < len(rest):
                self.bytes = rest[size + 1:]
                return Frame((head + end + rest[:size]).decode())
            more = self.socket.recv(65536)
            if not more:
                return None
            self.bytes += more

    def close(self):
        self.socket.close()


class Server(served.Server):
    CONFIG = served.Server.CONFIG + "stomp.listeners.tcp.default = 127.0.0.1:0\nweb_stomp.tcp.listener = 127.0.0.1:0\n"

    def start(self):
        super().start()
        self.port = self.port_of("stomp")
        return self

    def client(self, version="1.2", **options):
        self.clients.append(Client(self.port, version, **options))
        return self.clients[-1]

    def socket(self, *frames):
        """A connection that has written these frames."""
        made = Socket(self.port)
        self.clients.append(made)
        made.write(*frames)
        return made

    def web_client(self, **options):
        self.clients.append(WebClient(self.port_of("stomp-ws"), **options))
        return self.clients[-1]

    def web(self, *frames, path="/ws", name="stomp-ws", scheme="ws", **options):
        """A WebSocket that has sent these frames, each in a message."""
        made = websocket.create_connection(f"{scheme}://127.0.0.1:{self.port_of(name)}{path}", timeout=DEADLINE_S, **options)
        self.clients.append(made)
        for one in frames:
            made.send(one)
        return made

    def talk(self, *frames, count=1):
        """So many frames of the answer behind CONNECTED."""
        made = self.socket(*frames)
        answers = [made.read() for _ in range(count + 1)]
        assert answers[0].command == "CONNECTED", answers
        return answers[1] if count == 1 else answers[1:]


class Client(stomp.ConnectionListener):
    """stomp.py, connected when made."""

    def __init__(self, port, version, vhost="/", user="guest", password="guest", heartbeats=(0, 0)):
        options = {} if version == "1.0" else {"vhost": vhost, "heartbeats": heartbeats}
        self.open(KINDS[version]([("127.0.0.1", port)], reconnect_attempts_max=1, **options), user, password)

    def open(self, connection, user, password):
        self.messages, self.receipts, self.errors = queue.Queue(), queue.Queue(), queue.Queue()
        self.stomp = connection
        self.stomp.set_listener("", self)
        self.stomp.connect(user, password, wait=True)
        for name in ("send", "ack", "nack", "begin", "commit", "abort", "unsubscribe"):
            setattr(self, name, getattr(self.stomp, name, None))

    def on_message(self, frame):
        self.messages.put(frame)

    def on_receipt(self, frame):
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame):
        self.errors.put(frame)

    def subscribe(self, destination, id="1", ack="auto", **headers):
        """Returns when it is made."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.stomp.subscribe(destination, id, ack=ack, headers={"receipt": f"subscribed-{id}", **headers})
        assert self.receipt() == f"subscribed-{id}"

    def message(self):
        return self.messages.get(timeout=DEADLINE_S)

    def receipt(self):
        return self.receipts.get(timeout=DEADLINE_S)

    def error(self):
        return self.errors.get(timeout=DEADLINE_S)

    def close(self):
        if self.stomp.is_connected():
            self.stomp.disconnect()


class WebClient(Client):
    """stomp.py over WebSocket, in version 1.2."""

    def __init__(self, port, user="guest", password="guest", **options):
        self.open(WSStompConnection([("127.0.0.1", port)], vhost="/", ws_path="/ws", reconnect_attempts_max=1, **options), user, password)
