"""A receiving link of AMQP 1.0 at a node, in a process of its own."""

import json
import os
import pathlib
import subprocess
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("CACHE", HERE.parent.parent / ".cache"))


class Link:
    """Attached when made. `got` has what came, `ends` why it ended."""

    def __init__(self, node, queue, credit):
        environment = {**os.environ, "AMQP_URL": f"amqp://guest:guest@{node.host}:{node.port}", "NODE_PATH": str(CACHE / "node/node_modules")}
        self.got, self.ends, self.is_attached = [], [], False
        command = ["node", str(HERE / "link.js"), queue, str(credit)]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, daemon=True).start()
        self._until(lambda: self.is_attached)

    def _read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            if "end" in event:
                self.ends.append(event["end"])
            elif "attached" in event:
                self.is_attached = True
            else:
                self.got.append(event)

    def _until(self, answer):
        end = time.monotonic() + 20
        while not answer() and not self.ends and time.monotonic() < end:
            time.sleep(0.05)
        assert answer() and not self.ends, (self.got, self.ends)

    def wait(self, count):
        """So many have come, and no more do."""
        self._until(lambda: len(self.got) >= count)
        time.sleep(0.3)
        assert len(self.got) == count, self.got

    def bodies(self):
        return [event["body"].encode() for event in self.got]

    def say(self, command):
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def close(self):
        self.say("close")
        assert self.process.wait(20) == 0
