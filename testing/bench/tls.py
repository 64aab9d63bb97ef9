#!/usr/bin/env python3
"""Memory of an idle AMQP connection over TLS, and the cost of a handshake.

    tls.py --pid PID --port TLS_PORT --ca FILE [--connections 2000] [--seconds 5]

Prints KiB of resident memory for each idle connection, handshakes a second by one `openssl s_time`, and the broker's CPU for each.
Any broker does that lets guest log in. Needs pika.
"""

import argparse
import re
import resource
import socket
import ssl
import subprocess
import time

from pika import frame, spec


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


def cpu_ms(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 10


def opened(port, context):
    """A connection that is open and idle, without heartbeats."""
    stream = context.wrap_socket(socket.create_connection(("localhost", port)), server_hostname="localhost")
    stream.sendall(b"AMQP\0\0\x09\x01")
    stream.recv(65536)
    start_ok = spec.Connection.StartOk(client_properties={}, mechanism="PLAIN", response="\0guest\0guest", locale="en_US")
    stream.sendall(frame.Method(0, start_ok).marshal())
    stream.recv(65536)
    tune_ok = spec.Connection.TuneOk(100, 131072, 0)
    stream.sendall(frame.Method(0, tune_ok).marshal() + frame.Method(0, spec.Connection.Open("/", insist=True)).marshal())
    stream.recv(65536)
    return stream


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ca", required=True)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--seconds", type=int, default=5)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, options.connections + 1000), hard))
    context = ssl.create_default_context(cafile=options.ca)
    for stream in [opened(options.port, context) for _ in range(200)]:     # what is made once does not count
        stream.close()
    time.sleep(2)
    before = resident_kib(options.pid)
    kept = [opened(options.port, context) for _ in range(options.connections)]
    time.sleep(3)
    print(f"idle connection: {(resident_kib(options.pid) - before) / len(kept):.1f} KiB")
    before = cpu_ms(options.pid)
    command = ["openssl", "s_time", "-connect", f"localhost:{options.port}", "-new", "-tls1_3", "-time", str(options.seconds)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=options.seconds + 30).stdout
    count = int(re.search(r"(\d+) connections in \d+ real seconds", said).group(1))
    print(f"handshakes: {count / options.seconds:.0f}/s, {(cpu_ms(options.pid) - before) / count:.2f} ms of the broker's CPU each")


if __name__ == "__main__":
    main()
