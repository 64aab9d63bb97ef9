#!/usr/bin/env python3
"""Runs the suite that the stream client for Go publishes, as it is, against a Warren of its own on the usual ports.

    go.py --warren BIN --cache .cache [--logs DIR] [--focus REGEX]

The client comes from the Go module proxy at the pinned version and is never committed. Its tests speak to localhost at 5552, 5672 and
15672: all of it runs in a network namespace of its own, which needs root. Tests that are left out stand in SKIPPED, with the reason.
Exit code 0: every test that ran passed.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

import house

MODULE = "github.com/rabbitmq/rabbitmq-stream-go-client@v1.8.1"
SEVERAL_CHUNKS = "wants messages that are published at once to stand in several chunks; a chunk here has up to 256 KiB"
SKIPPED = {
    "Streaming testEnvironment Stream Status": SEVERAL_CHUNKS,
    "Streaming Consumers Not panics on close when the internal queue is full": SEVERAL_CHUNKS,
    "Streaming Consumers Manual Credit Strategy": SEVERAL_CHUNKS,
}
# Some tests compare once what another goroutine is about to change, and fail on a busy machine. So many get a second run.
AGAIN_MAX = 5


def go_environment(cache):
    return os.environ | {"GOMODCACHE": str(cache / "go" / "mod"), "GOCACHE": str(cache / "go" / "build"), "GOTOOLCHAIN": "local",
                         "GOFLAGS": "-modcacherw"}


def fetch(cache, folder):
    """The client with its tests, and a binary of them."""
    environment = go_environment(cache)
    subprocess.run(["go", "mod", "download", MODULE], cwd="/", env=environment, check=True)
    source = cache / "go" / "mod" / MODULE
    subprocess.run(["go", "test", "-c", "-mod=readonly", "-o", str(folder / "tests"), "./pkg/stream"], cwd=source, env=environment, check=True)
    return source / "pkg" / "stream"


def suite(words, folder):
    """One run of the tests, and what it said."""
    done = subprocess.run(words, cwd=(folder / "source").read_text(), capture_output=True, text=True, errors="replace")
    return done, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warren", required=True)
    parser.add_argument("--cache", required=True, type=pathlib.Path)
    parser.add_argument("--logs", type=pathlib.Path)
    parser.add_argument("--focus")
    given = parser.parse_args()

    def prepare(folder):
        (folder / "source").write_text(str(fetch(given.cache.resolve(), folder)))

    folder = house.enter(prepare)
    server = house.server(given.warren, folder)
    words = [str(folder / "tests"), "-test.timeout=600s", "--ginkgo.no-color"]
    words += ["--ginkgo.focus", given.focus] if given.focus else []
    for skipped in SKIPPED:
        words += ["--ginkgo.skip", skipped]
    done, text = suite(words, folder)
    failed = set(re.findall(r"^\s*\[FAIL\] .*\[It\] (.*)$", done.stdout, re.MULTILINE))
    if failed and len(failed) <= AGAIN_MAX:
        print("a second run:", "; ".join(sorted(failed)))
        done, again = suite([*words, *(word for name in failed for word in ("--ginkgo.focus", re.escape(name)))], folder)
        text += again
    server.stop()
    house.keep(given.logs, "streams-go.log", text)
    for line in re.findall(r"^\s*\[FAIL\].*$", text, re.MULTILINE):
        print(line.strip())
    print("\n".join(re.findall(r"^Ran \d+ of .*$|^(?:FAIL!|SUCCESS!).*$", text, re.MULTILINE)) or text[-2000:])
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
