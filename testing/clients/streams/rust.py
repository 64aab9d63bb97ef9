#!/usr/bin/env python3
"""Runs the suite that the stream client for Rust publishes, as it is, against a Warren of its own on the usual ports.

    rust.py --warren BIN --cache .cache [--logs DIR] [--focus NAME]

The client comes from crates.io at the pinned version and is never committed. Tests that are left out stand in SKIPPED, with the reason.
Exit code 0: every test that ran passed.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import urllib.request

import house

NAME, VERSION = "rabbitmq-stream-client", "0.11.0"
CRATE = f"https://static.crates.io/crates/{NAME}/{NAME}-{VERSION}.crate"
DEADLINE_S = 60
SKIPPED = {"producer_drop": "counts tasks inside the client, which differs from run to run"}
# They get a second run.
RACES = {"producer_got_back_unconfirmed_messages_on_close": "waits for ever when all is confirmed before its connection is closed from outside"}


def fetch(cache):
    """The client with its tests and certificates."""
    source = cache / "rust" / f"{NAME}-{VERSION}"
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(CRATE) as answer, tarfile.open(fileobj=answer, mode="r|gz") as archive:
            archive.extractall(source.parent, filter="data")
        # It is no member of the workspace around it.
        with open(source / "Cargo.toml", "a") as manifest:
            manifest.write("\n[workspace]\n")
    return source


def build(source, cache):
    """Paths of the binaries of its tests."""
    environment = os.environ | {"CARGO_TARGET_DIR": str(cache / "rust" / "target")}
    done = subprocess.run(["cargo", "test", "--no-run"], cwd=source, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    found = re.findall(r"Executable (?:unittests )?(\S+)[^\n]* \((\S+)\)", done.stderr)
    return [path for _, path in found]


def one(binary, name, source):
    """The output of a test, run by itself: some wait for ever when they fail."""
    try:
        done = subprocess.run([binary, "--exact", name, "--nocapture"], cwd=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=DEADLINE_S)
        return done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as error:
        return f"{(error.stdout or b'').decode(errors='replace')}\n{name}: not over after {DEADLINE_S} s\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warren", required=True)
    parser.add_argument("--cache", required=True, type=pathlib.Path)
    parser.add_argument("--logs", type=pathlib.Path)
    parser.add_argument("--focus")
    given = parser.parse_args()

    def prepare(folder):
        source = fetch(given.cache.resolve())
        (folder / "tests").write_text("\n".join([str(source), *build(source, given.cache.resolve())]))

    folder = house.enter(prepare)
    source, *binaries = (folder / "tests").read_text().splitlines()
    tls = house.TLS.format(folder=pathlib.Path(source) / ".ci" / "certs")
    server = house.server(given.warren, folder, house.CONFIG + tls)
    text, ran, failed = "", 0, []
    for binary in binaries:
        listed = subprocess.run([binary, "--list", "--format", "terse"], cwd=source, capture_output=True, text=True).stdout
        for name in re.findall(r"^(\S+): test$", listed, re.MULTILINE):
            if name in SKIPPED or (given.focus and given.focus not in name):
                continue
            said = one(binary, name, source)
            if name in RACES and "test result: ok" not in said:
                said += one(binary, name, source)
            text, ran = text + said, ran + 1
            if "test result: ok" not in said:
                failed.append(name)
    server.stop()
    house.keep(given.logs, "streams-rust.log", text)
    print("\n".join(f"FAILED {name}" for name in failed))
    print(f"ran {ran}, failed {len(failed)}")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
