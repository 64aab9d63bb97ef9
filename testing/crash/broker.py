#!/usr/bin/env python3
"""One broker process: started on a free port, stopped, killed, restarted on the same port. Knows nothing of AMQP.

A broker is any command that prints a line `ready amqp=HOST:PORT ...` on its standard output when it accepts connections, where
the word {port} in the command stands for the port (0 at first: any) and {data} for its data folder. Used as a module by the
crash tests, and as a program by `cargo xtask suites` and by whoever needs a restart command (BROKER_RESTART) for the client suites:

    broker.py start   --state FILE --log FILE -- warren server --listen 127.0.0.1:{port} --data-dir DIR
    broker.py restart --state FILE [--kill]
    broker.py stop    --state FILE
    broker.py url     --state FILE         amqp://guest:guest@HOST:PORT/%2F
    broker.py pid     --state FILE
    broker.py gate    --port P --to HOST:PORT     a TCP relay that prints a ready line: restarting it looks like a broker's
                                                  restart to clients, without touching the broker behind it

`start` leaves the process running in a session of its own, described by FILE; `stop` ends exactly that one.
"""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

READY = re.compile(r"^ready amqp=(\S+):(\d+)(?: .*)?$", re.MULTILINE)


class Failed(Exception):
    """The process did not do what was asked; the text holds the end of its log."""


class Broker:
    """A process by its command template. Not thread-safe; one instance per process."""

    def __init__(self, command, log_path, port=0, pid=None, host="127.0.0.1"):
        self.command, self.log_path, self.port, self.pid, self.host = command, log_path, port, pid, host
        self.child = None

    @property
    def url(self):
        return f"amqp://guest:guest@{self.host}:{self.port}/%2F"

    def start(self, deadline_s=60):
        """Starts it and returns the seconds until it was ready."""
        begin = time.monotonic()
        command = [word.replace("{port}", str(self.port)) for word in self.command]
        with open(self.log_path, "ab") as log:
            log.write(f"# {' '.join(command)}\n".encode())
            log.flush()
            offset = log.tell()
            self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        self.pid = self.child.pid
        while True:
            with open(self.log_path, "rb") as log:
                log.seek(offset)
                ready = READY.search(log.read().decode(errors="replace"))
            if ready:
                self.host, self.port = ready.group(1), int(ready.group(2))
                return time.monotonic() - begin
            if self.child.poll() is not None:
                raise Failed(f"it ended with {self.child.returncode} instead of getting ready\n{self.log_tail()}")
            if time.monotonic() - begin > deadline_s:
                self.kill()
                raise Failed(f"not ready after {deadline_s} s\n{self.log_tail()}")
            time.sleep(0.005)

    def kill(self):
        """SIGKILL to the whole process group, and waits until it is gone."""
        self._signal(signal.SIGKILL)
        self._wait(10)

    def stop(self, deadline_s=30):
        """SIGTERM; returns the seconds it took. Killed, and a failure, when it does not end in time."""
        begin = time.monotonic()
        try:
            os.kill(self.pid, signal.SIGTERM)
        except ProcessLookupError:
            return 0.0
        if not self._wait(deadline_s):
            self.kill()
            raise Failed(f"SIGTERM did not end it in {deadline_s} s\n{self.log_tail()}")
        self._signal(signal.SIGKILL)     # what it may have left in its group
        return time.monotonic() - begin

    def alive(self):
        if self.child is not None:
            return self.child.poll() is None
        try:
            with open(f"/proc/{self.pid}/stat") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def rss_bytes(self):
        """Resident memory now and at most so far, of the process and its children."""
        return rss_bytes(self.pid)

    def log_tail(self, lines=25):
        with open(self.log_path, errors="replace") as log:
            return "".join(log.readlines()[-lines:])

    def _signal(self, number):
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def _wait(self, deadline_s):
        end = time.monotonic() + deadline_s
        while self.alive():
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True


def rss_bytes(pid):
    """Resident memory of a process."""
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def gate(port, host, to_port):
    """Relays connections until it is ended; every connection ends with it."""
    listener = socket.create_server(("127.0.0.1", port), backlog=512)
    print(f"ready amqp=127.0.0.1:{listener.getsockname()[1]} gate to {host}:{to_port} pid={os.getpid()}", flush=True)

    def pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    while True:
        client, _ = listener.accept()
        try:
            server = socket.create_connection((host, to_port), 5)
        except OSError:
            client.close()
            continue
        for pair in ((client, server), (server, client)):
            for end in pair:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                end.settimeout(None)
            threading.Thread(target=pump, args=pair, daemon=True).start()


def load(path):
    with open(path) as file:
        state = json.load(file)
    return Broker(state["command"], state["log"], state["port"], state["pid"], state["host"])


def save(broker, path):
    with open(path + ".new", "w") as file:
        json.dump({"command": broker.command, "log": broker.log_path, "port": broker.port, "pid": broker.pid, "host": broker.host}, file)
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["start", "restart", "stop", "url", "pid", "gate"])
    parser.add_argument("--state")
    parser.add_argument("--log")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--to")
    parser.add_argument("--kill", action="store_true", help="restart: SIGKILL instead of SIGTERM")
    arguments, command = sys.argv[1:], []
    if "--" in arguments:
        split = arguments.index("--")
        arguments, command = arguments[:split], arguments[split + 1:]
    options = parser.parse_args(arguments)
    try:
        if options.what == "gate":
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
            host, _, to_port = options.to.rpartition(":")
            gate(options.port, host, int(to_port))
        elif options.what == "start":
            broker = Broker(command, os.path.abspath(options.log), options.port)
            took_s = broker.start()
            save(broker, options.state)
            print(f"{broker.url} pid {broker.pid} ready in {took_s:.2f} s")
        elif options.what == "restart":
            broker = load(options.state)
            broker.kill() if options.kill else broker.stop()
            time.sleep(0.3)            # long enough for every client to notice a refused connection
            broker.start()
            save(broker, options.state)
        elif options.what == "stop":
            if os.path.exists(options.state):
                load(options.state).stop()
                os.remove(options.state)
        else:
            broker = load(options.state)
            print(broker.url if options.what == "url" else broker.pid)
    except Failed as failure:
        sys.exit(f"broker: {failure}")


if __name__ == "__main__":
    main()
