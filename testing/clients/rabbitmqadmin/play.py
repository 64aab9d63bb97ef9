"""Runs cases.py through rabbitmqadmin against one broker, with an AMQP client of user `rqa` beside it. Knows no expected answer."""

import json
import os
import re
import subprocess
import tempfile
import time
import urllib.request
from base64 import b64encode

import pika

import cases

FOLDER = "FOLDER"


class Admin:
    """rabbitmqadmin against one broker."""

    def __init__(self, binary, amqp_port, http_port):
        self.binary, self.amqp_port, self.http_port = binary, amqp_port, http_port
        self.node = self.get("/api/overview")["node"]
        self.folder = tempfile.mkdtemp(prefix="rabbitmqadmin")
        self.client = self.name = None

    def get(self, path):
        request = urllib.request.Request(f"http://127.0.0.1:{self.http_port}{path}", headers={"Authorization": "Basic " + b64encode(b"guest:guest").decode()})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    def connect(self):
        """A client with a consumer; returns when the HTTP API shows all of it."""
        self.close()
        login = pika.PlainCredentials("rqa", "secret")
        self.client = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.amqp_port, "rqa", login, heartbeat=600))
        channel = self.client.channel()
        channel.basic_consume("orders", lambda *_: None, consumer_tag="cook")
        until = time.monotonic() + 15
        while time.monotonic() < until:
            ours = [one for one in self.get("/api/connections") if one.get("user") == "rqa"]
            if ours and any(one.get("vhost") == "rqa" for one in self.get("/api/channels")) and self.get("/api/consumers/rqa"):
                self.name = ours[-1]["name"]
                return
            time.sleep(0.2)
        raise AssertionError("the HTTP API does not show the client")

    def shovel_runs(self):
        """Waits until a shovel does."""
        until = time.monotonic() + 15
        while time.monotonic() < until and not any(one.get("state") == "running" for one in self.get("/api/shovels/rqa")):
            time.sleep(0.2)

    def run(self, line, stdin):
        # Words end at blanks; JSON in the cases has none.
        line = line.replace("{node}", self.node).replace("{port}", str(self.amqp_port)).replace("{dir}", self.folder)
        words = [word.replace("{connection}", self.name or "").strip('"') if word != '"text"' else word for word in line.split(" ")]
        vhost = [] if "-V" in words else ["-V", "rqa"]
        command = [self.binary, "-U", f"http://127.0.0.1:{self.http_port}", "-u", "guest", "-p", "guest", *vhost, "--table-style", "psql", *words]
        environment = {**os.environ, "HOME": self.folder}
        done = subprocess.run(command, input=stdin or "", capture_output=True, text=True, timeout=60, env=environment)
        return {"exit": done.returncode, "out": self.masked(done.stdout), "err": self.masked(done.stderr)}

    def masked(self, text):
        text = text.replace(self.folder, FOLDER).replace(self.node, "NODE").replace(f":{self.http_port}", ":HTTP")
        return re.sub(rf"\b{self.amqp_port}\b", "AMQP", text)

    def close(self):
        """Of a client that may have been closed by a command."""
        try:
            if self.client and self.client.is_open:
                self.client.close()
        except pika.exceptions.AMQPError:
            pass


def play(binary, amqp_port, http_port):
    """(how, line, answer) of all cases in order."""
    admin = Admin(binary, amqp_port, http_port)
    answers = []
    try:
        for how, line, stdin in cases.cases():
            if how == "CLIENT":
                try:
                    admin.connect()
                except Exception as error:
                    raise AssertionError(f"no client: {error}; before it: {answers[-60:]}") from error
            elif how == "WAIT":
                admin.shovel_runs()
            else:
                answers.append({"how": how, "line": line, **admin.run(line, stdin)})
    finally:
        admin.close()
    return answers


def columns(out):
    """Names of columns of a table; of one with two columns, such as `key | value`, the names in the first."""
    lines = [[cell.strip() for cell in line.split("|")] for line in out.splitlines() if "|" in line]
    if lines and len(lines[0]) == 2:
        return sorted({line[0] for line in lines})
    return lines[0] if lines else []
