"""Servers and clients of the MQTT suite: paho's client with what it has received in lists, and AMQP beside it.

    client = broker.client("name", version=5, clean=False)
    client.subscribe("a/#", 1); client.publish("a/b", b"x", 1); client.next()
"""

import pathlib
import queue
import re
import time
import urllib.request

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import served
from served import DEADLINE_S

V31, V311, V5 = paho.MQTTv31, paho.MQTTv311, paho.MQTTv5


def properties(packet, **values):
    """Properties of a packet: `properties("PUBLISH", MessageExpiryInterval=3)`."""
    made = Properties(getattr(PacketTypes, packet))
    for name, value in values.items():
        setattr(made, name, value)
    return made


class Server(served.Server):
    CONFIG = "prometheus.tcp.port = 0\nmqtt.listeners.tcp.default = 127.0.0.1:0\nweb_mqtt.tcp.listener = 127.0.0.1:0\n"

    def start(self):
        super().start()
        self.port, self.web_port = self.port_of("mqtt"), self.port_of("mqtt-ws")
        return self

    def client(self, name="", version=V311, clean=True, expiry_s=None, will=None, **options):
        client = Client(self, name, version, clean, expiry_s, will, **options)
        self.clients.append(client)
        return client

    def metrics(self):
        """Values by name and labels."""
        port = re.search(r"port: (\d+), protocol: http/prometheus", self.ctl("listeners")[1])[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S) as answer:
            lines = answer.read().decode().splitlines()
        samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    def process_memory(self):
        """Resident bytes of the server."""
        status = pathlib.Path(f"/proc/{self.process.child.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


class Client:
    """Connected when made. `refused` is the reason when it was not let in."""

    def __init__(self, server, name, version, clean, expiry_s, will, **options):
        web, authority = options.pop("web", False), options.pop("authority", None)
        certificate, key = options.pop("certificate", None) or (None, None)
        port = options.pop("port", server.web_port if web else server.port)
        self.version, self.messages, self.events = version, queue.Queue(), queue.Queue()
        new = {} if version == V5 else {"clean_session": clean}
        self.paho = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=version,
                                reconnect_on_failure=False, transport="websockets" if web else "tcp", **new)
        if web:
            self.paho.ws_set_options("/ws")
        if authority:
            self.paho.tls_set(ca_certs=str(authority), certfile=certificate, keyfile=key)
        self.paho.on_message = lambda _, __, message: self.messages.put(message)
        self.paho.on_connect = lambda _, __, flags, reason, given: self.events.put(("connect", flags, reason, given))
        self.paho.on_disconnect = lambda _, __, ___, reason, given: self.events.put(("disconnect", reason))
        self.paho.on_subscribe = lambda _, __, ___, reasons, ____: self.events.put(("subscribe", reasons))
        self.paho.on_unsubscribe = lambda _, __, ___, reasons, ____: self.events.put(("unsubscribe", reasons))
        self.paho.on_publish = lambda _, __, number, reason, ___: self.events.put(("publish", number, reason))
        user, password = options.pop("login", ("guest", "guest"))
        if user is not None:
            self.paho.username_pw_set(user, password)
        if will:
            topic, payload, qos, retain, given = (*will, None)[:5]
            self.paho.will_set(topic, payload, qos, retain, given)
        self.paho.manual_ack_set(options.pop("manual_ack", False))
        keep_alive = options.pop("keep_alive", 60)
        start = {}
        if version == V5:
            asked = {} if expiry_s is None else {"SessionExpiryInterval": expiry_s}
            start = {"clean_start": clean, "properties": properties("CONNECT", **asked, **options)}
        self.paho.connect("127.0.0.1", port, keep_alive, **start)
        self.paho.loop_start()
        _, flags, self.reason, self.given = self.event("connect")
        self.refused, self.session_present = self.reason.is_failure, flags.session_present

    def event(self, name, deadline_s=DEADLINE_S):
        """The next event of that name; those before it are dropped."""
        end = time.monotonic() + deadline_s
        while True:
            event = self.events.get(timeout=max(end - time.monotonic(), 0.01))
            if event[0] == name:
                return event

    def subscribe(self, *args, **kwargs):
        """The reason codes, as numbers."""
        self.paho.subscribe(*args, **kwargs)
        return [reason.value for reason in self.event("subscribe")[1]]

    def unsubscribe(self, *args):
        self.paho.unsubscribe(*args)
        return [reason.value for reason in self.event("unsubscribe")[1]]

    def publish(self, topic, payload=b"", qos=0, retain=False, **given):
        """Returns when it is acknowledged: the reason code."""
        props = properties("PUBLISH", **given) if given else None
        number = self.paho.publish(topic, payload, qos, retain, props).mid
        while True:
            _, done, reason = self.event("publish")
            if done == number:
                return reason.value

    def next(self, deadline_s=DEADLINE_S):
        return self.messages.get(timeout=deadline_s)

    def payloads(self, count):
        return [self.next().payload for _ in range(count)]

    def nothing(self, wait_s=0.3):
        """Nothing comes."""
        try:
            message = self.messages.get(timeout=wait_s)
        except queue.Empty:
            return
        raise AssertionError(f"{message.topic}: {message.payload}")

    def disconnect(self, **options):
        self.paho.disconnect(**options)
        self.event("disconnect")
        self.close()

    def _end_loop(self):
        """The loop of the client ends. It looks once a second, unless a byte wakes it."""
        self.paho._thread_terminate = True
        if self.paho._sockpairW:
            self.paho._sockpairW.send(b"0")
        self.paho.loop_stop()

    def drop(self):
        """The socket ends without a DISCONNECT."""
        self._end_loop()
        self.paho._sock_close()

    def close(self):
        self._end_loop()
        if self.paho.socket():
            self.paho._sock_close()
