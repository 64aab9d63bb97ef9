"""Starting and stopping what is measured. Each broker is a context manager that yields its address and process id.

Refuses to know workloads. A broker that is not there is a `Missing` with the reason, never a failed run.
"""

import contextlib
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 30
PEER_NAME = "rabbitmq4"
PEER_URI = "amqp://127.0.0.1:5674"


class Missing(Exception):
    """Something cannot be measured here; the text says why and what to do."""


class Absent(Missing):
    """A whole broker that is not here: no need to try it again for the next workload."""


@dataclass(frozen=True)
class Running:
    """A broker that accepts connections."""

    uri: str
    pid: int


@dataclass(frozen=True)
class Tools:
    """Commands: the Warren binary, and the generator and null broker (the same binary, or a stand-in of their own)."""

    warren: list[str]
    load: list[str]


def target_folder():
    """Where cargo puts what it builds."""
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")


def _build(*what):
    if subprocess.run(["cargo", "build", "--release", *what], cwd=ROOT, check=False).returncode != 0:
        raise SystemExit("the build failed; WARREN=/path/to/warren measures a binary that is there")


def tools():
    """Builds what is needed."""
    binary = os.environ.get("WARREN")
    if not binary:
        _build("--package", "warren")
        binary = str(target_folder() / "release" / "warren")
    probe = subprocess.run([binary, "perf", "--help"], capture_output=True, check=False)
    if probe.returncode == 0:
        return Tools([binary], [binary])
    # A binary without the generator, such as an older build: the generator of this checkout measures it.
    _build("--package", "perf", "--example", "load")
    return Tools([binary], [str(target_folder() / "release" / "examples" / "load")])


@contextlib.contextmanager
def _started(command, what):
    """A process that prints `ready amqp=HOST:PORT ...` and runs until the end of the block."""
    log = ROOT / "bench-results" / f"{what}.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT)
    try:
        line = _ready_line(process)
        if line is None:
            first = (log.read_text().strip().splitlines() or ["it said nothing"])[0]
            raise Absent(f"{what} does not start: {first}")
        address = re.search(r"amqp=(\S+)", line)[1]
        yield Running(f"amqp://{address}", process.pid)
    finally:
        process.terminate()
        try:
            process.wait(READY_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ready_line(process):
    """The line with the address, or None if the process ends or closes its output before."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        line = process.stdout.readline()
        if not line:
            return None
        if line.startswith("ready ") and "amqp=" in line:
            return line
    return None


@contextlib.contextmanager
def warren(tools, _workload):
    """A fresh Warren on a free port. Its data lies in the checkout, because a temporary folder may be memory."""
    data = ROOT / ".cache" / "bench-data"
    shutil.rmtree(data, ignore_errors=True)
    data.parent.mkdir(exist_ok=True)
    command = [*tools.warren, "server", "--listen", "127.0.0.1:0", "--data-dir", str(data), "--log", "error"]
    try:
        with _started(command, "warren") as running:
            yield running
    finally:
        shutil.rmtree(data, ignore_errors=True)


@contextlib.contextmanager
def null(tools, workload):
    """The null broker, forwarding as the workload needs it."""
    command = [*tools.load, "null-broker", "--listen", "127.0.0.1:0", "--deliver", workload.deliver]
    with _started(command, "null-broker") as running:
        yield running


def peer_command():
    """The command that runs a RabbitMQ."""
    peer = os.environ.get("PEER")
    if not peer:
        raise Absent("no RabbitMQ to compare with: set PEER to a command that runs one (see testing/bench/run.sh)")
    return peer


def peer_ctl(*arguments):
    """Runs a control command of the RabbitMQ."""
    done = subprocess.run([peer_command(), "ctl", PEER_NAME, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Missing(f"{arguments[0]} failed: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")


def _peer_pid(peer):
    asked = subprocess.run([peer, "ctl", PEER_NAME, "eval", "list_to_integer(os:getpid())."],
                           capture_output=True, text=True, check=False)
    pid = asked.stdout.strip()
    return int(pid) if asked.returncode == 0 and pid.isdigit() else None


class Rabbitmq:
    """One RabbitMQ for the whole run: the one that runs already, or one that is started and stopped."""

    def __init__(self):
        self.pid = None
        self.ours = False

    @contextlib.contextmanager
    def __call__(self, _tools, _workload):
        peer = peer_command()
        if self.pid is None:
            self.pid = _peer_pid(peer)
        if self.pid is None:
            started = subprocess.run([peer, "start", PEER_NAME], capture_output=True, text=True, check=False)
            self.pid = _peer_pid(peer)
            self.ours = self.pid is not None
            if self.pid is None:
                last = (started.stdout + started.stderr).strip().splitlines() or ["it said nothing"]
                raise Absent(f"{peer} start {PEER_NAME} failed: {last[-1]}")
        yield Running(PEER_URI, self.pid)

    def stop(self):
        """Stops what was started here."""
        if self.ours:
            subprocess.run([peer_command(), "stop", PEER_NAME], capture_output=True, check=False)
