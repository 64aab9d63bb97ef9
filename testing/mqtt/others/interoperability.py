#!/usr/bin/env python3
"""Runs the interoperability tests of eclipse/paho.mqtt.testing, as they are, against a Warren of its own: `client_test.py` (3.1.1) and
`client_test5.py` (5.0).

    interoperability.py --warren BIN --cache .cache [--source CHECKOUT] [--port PORT]

Without --source a checkout at the pinned commit is fetched. With --port the tests go to a broker that is there. Tests that are left out, and differences that
is known to fail, stands below with the reason. Exit code 0: every other test has passed, and those known to fail fail.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "crash")]

REPOSITORY, COMMIT = "https://github.com/eclipse/paho.mqtt.testing", "9d7bb80bb8b9d9cfc0b52f8cb4c1916401281103"
TOPICS = ("TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA")
WILDCARDS = ("TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#")

SKIPPED = {
    "client_test5.test_flow_control2": "runs out of packet ids for ever, unless the server announces a Receive Maximum",
}
# Read permissions, so that nobody may subscribe to `test/nosubscribe`.
READABLE = "^([^t]|t[^e]|te[^s]|tes[^t]|test[^.]|$)"
UNSTEADY = {
    "client_test5.test_subscribe_options": "does not wait for the SUBACK of its second client",
}
FAILS = {
    "client_test5.test_subscribe_failure": "wants 0x80, and is told 0x87: not authorized",
    "client_test5.test_server_keep_alive": "wants a server that shortens keep alives to 60 s",
}


def fetched(cache):
    source = cache / "paho.mqtt.testing"
    if not (source / "interoperability").exists():
        subprocess.run(["git", "clone", "--quiet", REPOSITORY, source], check=True)
        subprocess.run(["git", "-C", source, "checkout", "--quiet", COMMIT], check=True)
    return source


def cases(module, port):
    """The tests of a module, told where the broker is."""
    module.host, module.port = "127.0.0.1", port
    module.topic_prefix = "client_test5/"
    module.topics, module.wildtopics, module.nosubscribe_topics = TOPICS, WILDCARDS, ("test/nosubscribe",)
    for test in unittest.defaultTestLoader.loadTestsFromModule(module):
        test._tests = [it for it in test if name_of(it) not in SKIPPED]
        yield test


def name_of(test):
    return f"{type(test).__module__}.{test._testMethodName}"


def run(source, port):
    sys.path.insert(0, str(source / "interoperability"))
    wrong = 0
    for name in "client_test", "client_test5":
        suite = unittest.TestSuite(cases(__import__(name), port))
        result = unittest.TextTestRunner(verbosity=2).run(suite)
        failed = {name_of(test) for test, _ in result.failures + result.errors if hasattr(test, "_testMethodName")}
        expected = {test for test in FAILS if test.startswith(name + ".")}
        new, gone = failed - expected - UNSTEADY.keys(), expected - failed
        wrong += len(new) + len(gone) + sum(not hasattr(test, "_testMethodName") for test, _ in result.errors)
        print(f"{name}: {result.testsRun - len(failed)} of {result.testsRun} pass; new failures {sorted(new)}; pass by surprise {sorted(gone)}")
    return wrong


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("--warren")
    asked.add_argument("--cache", type=pathlib.Path, default=pathlib.Path(".cache"))
    asked.add_argument("--source", type=pathlib.Path)
    asked.add_argument("--port", type=int)
    given = asked.parse_args()
    source = given.source or fetched(given.cache.resolve())
    if given.port:
        sys.exit(run(source, given.port) != 0)
    from clients import Server
    with tempfile.TemporaryDirectory() as folder:
        server = Server(given.warren, pathlib.Path(folder)).start()
        server.ctl("set_topic_permissions", "guest", "amq.topic", ".*", READABLE)
        try:
            wrong = run(source, server.port)
        finally:
            server.end()
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
