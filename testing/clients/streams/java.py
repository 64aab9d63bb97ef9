#!/usr/bin/env python3
"""Runs the suite that the stream client for Java publishes, as it is, against a Warren of its own on the usual ports.

    java.py --warren BIN --cache .cache [--source FOLDER] [--logs DIR] [--focus TESTS]

The client comes from its repository at the pinned tag, unless --source names a checkout of it. It is never committed.
Tests that are left out stand in SKIPPED, with the reason. Exit code 0: every test that ran passed.
"""

import argparse
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import house

REPOSITORY, TAG = "https://github.com/rabbitmq/rabbitmq-stream-java-client", "v1.11.0"
# The versions that the tag names are not in Maven Central.
VERSIONS = ("-Dswiftmq-client.version=13.2.1", "-Dmicrometer.version=1.17.2", "-Dmicrometer-tracing-test.version=1.7.2")
MAVEN = ("mvn", "-q", "-B", "-Dspotless.check.skip=true", *VERSIONS)
NO_COORDINATOR = "restarts a stream or kills its leader: a stream has one member here, and no coordinator"
NO_APPLICATION = "stops the broker inside its process: node and process are one here"
SEVERAL_CHUNKS = "wants messages of two publishers to stand in two chunks"
SKIPPED = {
    "StreamConsumerTest#subEntryBatchingThrowableFromCodecShouldKeepGoing": SEVERAL_CHUNKS,
    "MetadataTest#shouldFilterOutNodesInMaintenance": "drains the node that it is connected to; needs several nodes",
    "SacClientTest#connectionShouldBeClosedIfConsumerUpdateTakesTooLong": "sets a time of RabbitMQ's by an Erlang expression",
    "SacStreamConsumerTest#activeConsumerShouldGetUpdateNotificationAfterDisruption": NO_COORDINATOR,
    "SacSuperStreamConsumerTest#activeConsumerShouldGetUpdateNotificationAfterDisruption": NO_COORDINATOR,
    "StreamConsumerTest#consumerShouldKeepConsumingAfterDisruption": NO_COORDINATOR + "; " + NO_APPLICATION,
    "StreamEnvironmentTest#environmentPublishersConsumersShouldCloseSuccessfullyWhenBrokerIsDown": NO_APPLICATION,
}
CERTIFICATES = pathlib.Path("/tmp/tls-gen/basic/result")


def prepare_with(source, cache):
    """Fetches and compiles, outside of the namespace."""
    def prepare(folder):
        where = source or cache / "java" / f"stream-client-{TAG}"
        if not where.exists():
            subprocess.run(["git", "clone", "-q", "--depth", "1", "--branch", TAG, REPOSITORY, str(where)], check=True)
        # A test that needs no broker brings what Maven needs to run tests.
        subprocess.run([*MAVEN, "test-compile", "surefire:test", "-Dtest=HashUtilsTest"], cwd=where, check=True)
        (folder / "source").write_text(str(where.resolve()))
    return prepare


def commands(folder, binary):
    """Makes the commands that the tests call."""
    here = pathlib.Path(__file__).resolve().parent / "rabbitmqctl.py"
    for name in ("rabbitmqctl", "rabbitmq-streams"):
        script = folder / name
        script.write_text(f"#!/bin/sh\nexport WARREN_BIN={shlex.quote(binary)} WARREN_DATA_DIR={shlex.quote(str(folder / 'data'))}\n"
                          f"exec {shlex.quote(sys.executable)} {shlex.quote(str(here))} \"$@\"\n")
        script.chmod(0o755)
    return folder / "rabbitmqctl"


def outcome(reports):
    """How many tests ran and were skipped, and the names of those that failed."""
    ran, skipped, failed = 0, 0, []
    for path in sorted(reports.glob("TEST-*.xml")):
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            name = f"{case.get('classname').rsplit('.', 1)[-1]} {case.get('name')}"
            if case.find("skipped") is not None:
                skipped += 1
                continue
            ran += 1
            if case.find("failure") is not None or case.find("error") is not None:
                failed.append(name)
    return ran, skipped, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warren", required=True)
    parser.add_argument("--cache", required=True, type=pathlib.Path)
    parser.add_argument("--source", type=pathlib.Path)
    parser.add_argument("--logs", type=pathlib.Path)
    parser.add_argument("--focus")
    given = parser.parse_args()
    folder = house.enter(prepare_with(given.source, given.cache.resolve()))
    source = pathlib.Path((folder / "source").read_text())
    server = house.server(given.warren, folder)
    reports = source / "target" / "surefire-reports"
    shutil.rmtree(reports, ignore_errors=True)
    chosen = ([given.focus] if given.focus else ["*Test"]) + [f"!{name}" for name in SKIPPED]
    words = [*MAVEN, "-o", "surefire:test", f"-Dtest={','.join(chosen)}", f"-Drabbitmqctl.bin={commands(folder, given.warren)}",
             # Some tests count what a thread of the client is about to do, and fail on a busy machine.
             "-Dsurefire.rerunFailingTestsCount=1", "-Dmaven.test.failure.ignore=true", "-DtrimStackTrace=true"]
    done = subprocess.run(words, cwd=source, capture_output=True, text=True, errors="replace")
    server.stop()
    house.keep(given.logs, "streams-java.log", done.stdout + done.stderr)
    ran, skipped, failed = outcome(reports)
    print("\n".join(f"FAILED {name}" for name in failed))
    print(f"ran {ran}, failed {len(failed)}, skipped by the suite {skipped}")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
