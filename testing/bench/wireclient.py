"""An AMQP connection for measuring: whole runs of frames written in one go, and one exchange of question and answer at a time.

Its frames are encoded before the clock starts, so that the broker is measured and not Python. It refuses to know what is
measured. Encoding is that of the conformance suite (`testing/conformance/wire.py`).
"""

import socket
import struct
import sys
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
import wire

CHANNEL = 1


class Refused(Exception):
    """The broker closed the channel or the connection, or said nothing in time."""


def frame(name, /, channel=CHANNEL, **args):
    """A whole method frame."""
    payload = wire.method(name, **args)
    return struct.pack(">BHI", wire.METHOD, channel, len(payload)) + payload + bytes([wire.FRAME_END])


def publish(exchange, key, body, persistent):
    """The frames of one message."""
    mode = {"delivery_mode": 2} if persistent else {}
    header = struct.pack(">HHQ", 60, 0, len(body)) + wire.properties(mode)
    frames = frame("basic.publish", exchange=exchange, routing_key=key)
    for kind, payload in ((wire.HEADER, header), (wire.BODY, body)):
        frames += struct.pack(">BHI", kind, CHANNEL, len(payload)) + payload + bytes([wire.FRAME_END])
    return frames


def with_vhost(uri, vhost):
    """The URI of another vhost of the same broker."""
    return f"{uri.rstrip('/')}/{quote(vhost, safe='')}"


class Connection:
    """One connection with one channel. `patience_s` bounds every wait for the broker."""

    def __init__(self, uri, patience_s):
        parts = urlsplit(uri)
        self.sock = socket.create_connection((parts.hostname, parts.port or 5672), timeout=patience_s)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = b""
        self.sock.sendall(wire.PROTOCOL_HEADER)
        self.expect("connection.start")
        self.sock.sendall(frame("connection.start-ok", channel=0, mechanism="PLAIN", response=b"\0guest\0guest", locale="en_US"))
        tune = self.expect("connection.tune")
        self.sock.sendall(frame("connection.tune-ok", channel=0, channel_max=1, frame_max=tune["frame_max"], heartbeat=0))
        self.ask("connection.open", channel=0, virtual_host=unquote(parts.path[1:]) or "/")
        self.ask("channel.open")

    def ask(self, name, /, **args):
        """One method and its answer."""
        self.sock.sendall(frame(name, **args))
        return self.expect(f"{name}-ok")

    def expect(self, name):
        """The arguments of the next method, which must be this one."""
        received, args = self.next()
        if received != name:
            text = args.get("reply_text", received)
            raise Refused(f"instead of {name}: {args.get('reply_code', '')} {text}".strip())
        return dict(args)

    def next(self):
        """Name and arguments of the next method."""
        while True:
            while len(self.pending) < 7:
                self._fill()
            kind, _, size = struct.unpack(">BHI", self.pending[:7])
            while len(self.pending) < size + 8:
                self._fill()
            payload, self.pending = self.pending[7 : size + 7], self.pending[size + 8 :]
            if kind == wire.METHOD:
                return wire.read_method(payload)

    def _fill(self):
        try:
            data = self.sock.recv(1 << 16)
        except TimeoutError:
            raise Refused(f"no answer within {self.sock.gettimeout():.0f} s") from None
        except OSError as error:
            raise Refused(str(error)) from None
        if not data:
            raise Refused("the broker closed the socket")
        self.pending += data

    def pour(self, data):
        """Writes frames that ask for no answer."""
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise Refused(str(error)) from None

    def close(self):
        """Ends it as far as it still goes."""
        try:
            self.ask("connection.close", channel=0, reply_code=200, reply_text="bye")
        except (Refused, OSError):
            pass
        self.sock.close()
