"""Completion by the Tab key, in the shells themselves: an interactive bash and zsh on a terminal, and fish's own `complete -C`, with the scripts
of `warren ctl completion`. A shell that is not installed is skipped: Debian has packages `zsh` and `fish`."""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import time

import pika
import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "crash"))

from warren import Warren  # noqa: E402

QUEUES = ("orders", "orders:new", "with'quote", "a=b", "täglich")
DEADLINE_S = 20


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A folder with `warren` and `rabbitmqctl`, for a server that has queues."""
    folder = tmp_path_factory.mktemp("completions")
    binary = os.path.realpath(os.environ["WARREN_BIN"])
    (folder / "bin").mkdir()
    for name in ("warren", "rabbitmqctl"):
        (folder / "bin" / name).symlink_to(binary)
    server = Warren(binary, folder, "prometheus.tcp.listener = none\n")
    server.start()
    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    for name in QUEUES:
        connection.channel().queue_declare(name, durable=True)
    connection.close()
    os.environ["WARREN_DATA_DIR"] = str(server.data)
    yield folder / "bin"
    del os.environ["WARREN_DATA_DIR"]
    server.stop()


def needs(shell):
    found = shutil.which(shell)
    if not found:
        pytest.skip(f"NO {shell.upper()} ON THIS MACHINE: its completions were not tested (apt-get install {shell})")
    return found


class Terminal:
    """An interactive shell at a terminal; it shows its line when it is asked to."""

    def __init__(self, command, path, setup):
        environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", "TERM": "dumb", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": str(path)}
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, environment)
        self.said = ""
        self.line(setup)
        self.line("echo READ''Y")
        self.until(r"READY")

    def line(self, text):
        os.write(self.end, text.encode() + b"\n")

    def until(self, pattern):
        end = time.monotonic() + DEADLINE_S
        while not (found := re.search(pattern, self.said)):
            assert time.monotonic() < end, f"the shell said: {self.said[-2000:]}"
            if select.select([self.end], [], [], 0.1)[0]:
                self.said += os.read(self.end, 65536).decode(errors="replace")
        return found

    def completed(self, typed):
        """The line after Tab."""
        self.said = ""
        os.write(self.end, typed.encode() + b"\t\x18p")
        line = self.until(r"LINE\[([^\]]*)\]").group(1)
        os.write(self.end, b"\x15")     # an empty line again
        return line.rstrip()

    def close(self):
        os.close(self.end)
        os.waitpid(self.pid, 0)


BASH = """bind -x '"\\C-xp": printf "LI""NE[%s]\\n" "$READLINE_LINE"'; source <(warren ctl completion bash)"""
ZSH = """autoload -U compinit; compinit -u -D; show() { print -r -- "LI""NE[$BUFFER]" }; zle -N show; bindkey '^Xp' show; source <(warren ctl completion zsh)"""


SCRIPTS = HERE.parent.parent / "apps" / "warren" / "src" / "ctl" / "completions"


@pytest.fixture(params=("bash", "zsh", "zsh that finds a file"))
def terminal(request, path, tmp_path):
    shell = request.param.split()[0]
    program, setup = needs(shell), BASH if shell == "bash" else ZSH
    if "file" in request.param:
        (tmp_path / "_warren").write_text((SCRIPTS / "warren.zsh").read_text())
        setup = f"fpath=({tmp_path} $fpath); {ZSH.rsplit(';', 1)[0]}"
    command = [program, "--norc", "--noprofile", "-i"] if shell == "bash" else [program, "-f", "-i"]
    terminal = Terminal(command, path, setup)
    yield terminal
    terminal.close()


CASES = (
    ("warren ct", "warren ctl"),
    ("warren ctl list_operator_p", "warren ctl list_operator_policies"),
    ("rabbitmqctl list_operator_p", "rabbitmqctl list_operator_policies"),
    ("warren ctl list_queues --formatter pr", "warren ctl list_queues --formatter pretty_table"),
    ("warren ctl delete_queue --if-u", "warren ctl delete_queue --if-unused"),
    ("rabbitmqctl -q purge_queue or", "rabbitmqctl -q purge_queue orders"),
    ("warren ctl purge_queue a", "warren ctl purge_queue a=b"),
    ("warren ctl purge_queue t", "warren ctl purge_queue täglich"),
    ("warren ctl purge_queue orders:", "warren ctl purge_queue orders:new"),
)


def test_tab_completes_in_bash_and_zsh(terminal):
    wrong = [(typed, line) for typed, wanted in CASES if (line := terminal.completed(typed)).replace("\\", "") != wanted]
    assert not wrong


@pytest.mark.parametrize("way", ("sourced", "found as a file"))
def test_fish_offers_the_same(path, tmp_path, way):
    program, wrong, load = needs("fish"), [], "warren ctl completion fish | source"
    if way != "sourced":
        for name in ("warren", "rabbitmqctl"):
            (tmp_path / f"{name}.fish").write_text((SCRIPTS / "warren.fish").read_text())
        load = f"set fish_complete_path {tmp_path}"
    for typed, wanted in (*CASES, ("warren ctl purge_queue w", "warren ctl purge_queue with'quote")):
        environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", "HOME": str(path), "LC_ALL": "C.UTF-8"}
        command = [program, "--no-config", "-c", f"{load}; complete -C {typed!r}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, env=environment)
        offered = [line.split("\t")[0] for line in done.stdout.splitlines()]
        if wanted.rsplit(" ", 1)[1] not in offered:
            wrong.append((typed, offered[:5], done.stderr))
    assert not wrong
