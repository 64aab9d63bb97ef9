"""A broker on which scenes are played while an ear listens. Knows no scene and no broker's habits."""

import subprocess
import time

import client
import wire
from api import Api, quoted
from ear import Ear
from scenes import VHOST

QUIET_S = 0.6          # without an event, when nobody knows how many there will be


class Stage:
    def __init__(self, url, http, ctl, node):
        self.url, self.api, self.prefix = url, Api(http), ctl
        self.ear = Ear(url, node)
        self.awaited, self.opened = [], []

    def ctl(self, *words):
        done = subprocess.run([*self.prefix, "-q", *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (words, done.stdout, done.stderr)

    def http(self, method, path, body=None, login="guest:guest"):
        return self.api.as_user(login)(method, path, body)

    def connect(self, user=None, password=None, mechanism="PLAIN", **options):
        url, response = self.url, None
        if user:
            url = url.replace(url.split("//")[1].split("@")[0], f"{user}:{password}")
        if mechanism == "AMQPLAIN":
            response = wire.table_body({"LOGIN": "guest", "PASSWORD": "guest"}).decode("latin-1")
        connection = client.Connection(url, mechanism=mechanism, response=response, **options)
        self.opened.append(connection)
        return connection

    def close_connections(self, reason):
        """All but the ear's; RabbitMQ lists a new one after some seconds."""
        end = time.monotonic() + 15
        while not (names := [it["name"] for it in self.http("GET", "/api/connections").json if it.get("vhost") == VHOST]):
            assert time.monotonic() < end, "no connection is listed"
            time.sleep(0.1)
        for name in names:
            self.api("DELETE", f"/api/connections/{quoted(name)}", headers={"X-Reason": reason})

    def later(self, key, **headers):
        """The step is over when such an event has come."""
        self.awaited.append((key, headers))

    def play(self, scene, counts=None):
        """The steps of a scene with the events of each; `counts` says how many are expected, step by step."""
        self.ear.heard(quiet_s=0.1)
        steps = []
        try:
            for nth, name in enumerate(scene(self)):
                expected = counts[nth] if counts and nth < len(counts) else 0
                if counts is None:
                    events = self.ear.heard(0, self.awaited, QUIET_S)
                else:
                    events = self.ear.heard(expected, (), 0.03, 2.0)
                self.awaited = []
                steps.append({"step": name, "events": sorted(events, key=repr)})
        finally:
            for connection in self.opened:
                connection.close()
            self.opened.clear()
        return steps

    def prepare(self):
        self.ctl("add_vhost", VHOST)
        self.ctl("set_permissions", "-p", VHOST, "guest", ".*", ".*", ".*")

    def clean(self):
        """Nothing of the scenes is left."""
        for kind, names in (("vhosts", (VHOST, "ev-vhost", "ev-web", "ev-import")), ("users", ("ev-user", "ev-web", "ev-import"))):
            for name in names:
                self.http("DELETE", f"/api/{kind}/{name}")
        self.ear.close()


