#!/usr/bin/env python3
"""Runs the integration suites that clients publish, as they are, against a broker by its URL: all of them side by side.

    run.py --url amqp://guest:guest@127.0.0.1:5672/%2F --cache .cache [--logs DIR] [SUITE...]

The suites come from the package registries at the pinned versions (`testing/setup.sh published go` brings them) and are never
committed. The tests left out need TLS, the HTTP API, or fail on RabbitMQ 4.3 and 3.10, too; each reason stands beside it. It knows
nothing of Warren: a test that fails here and passes on RabbitMQ is the broker's fault. Exit code 0: every test that ran passed.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time
from urllib.parse import urlsplit

HERE = pathlib.Path(__file__).resolve().parent
GO_MODULE = "github.com/rabbitmq/amqp091-go@v1.16.0"
NEEDS_HTTP_API = "ConnectionRecovery"  # closes connections over the HTTP API on port 15672
HASTY = "TestNotifyClosesAllChansAfterConnectionClose"  # no broker is asked: a server in the test has a millisecond, which a busy machine has not
DEFAULT_VHOST = "InvalidVHostTestCase"  # expects a vhost to be missing that its own URL names; fails on RabbitMQ, too
TIMING = "test_PyAMQPPriority and test_publish_requeue_consume"  # wants four messages of one drain; fails on RabbitMQ now and then, too


def pytest(venv, *arguments):
    return [str(venv / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=60", "--tb=short", *arguments]


def suites(cache, url):
    """{name: (folder, command, environment)}"""
    place, folder = urlsplit(url), cache / "published"
    host, port = place.hostname, str(place.port or 5672)
    main, other = folder / "venv", folder / "venv-aiorabbit"
    kombu_like = {"RABBITMQ_HOST": host, "RABBITMQ_5672_TCP": port}
    storm = {"AMQP_HOST": host, "AMQP_PORT": port, "AMQP_USERNAME": place.username, "AMQP_PASSWORD": place.password}
    storm |= {"AMQP_URI": url, "PYTHONPATH": str(HERE)}
    functional = pathlib.Path("amqpstorm/tests/functional")
    ignored = [f"--ignore={functional / name}" for name in ("management", "ssl", "test_web_based.py")]  # HTTP API and TLS
    storm_command = pytest(main, "-p", "amqpstorm_over_amqp", *ignored)
    go = cache / "go" / "mod" / GO_MODULE
    go_environment = {"GOMODCACHE": str(cache / "go" / "mod"), "GOCACHE": str(cache / "go" / "build"), "GOTOOLCHAIN": "local"}
    go_command = ["go", "test", "-mod=readonly", "-count=1", "-v", "-tags=integration", f"-skip={NEEDS_HTTP_API}|{HASTY}", "-timeout=300s", "."]
    made = {
        "py-amqp": (folder / "amqp-5.4.2", pytest(main, "t/integration", "-k", "not tls"), kombu_like),
        "kombu": (folder / "kombu-5.7.0", pytest(main, "t/integration/test_py_amqp.py", "-k", f"not ({TIMING})"), kombu_like),
        "aiorabbit": (folder / "aiorabbit-1.0.3", pytest(other, "tests", "-k", f"not {DEFAULT_VHOST}"), {}),
        "amqp091-go": (go, go_command, go_environment | {"AMQP_URL": url}),
    }
    reliability = functional / "test_reliability.py"  # sleeps a lot: beside the rest, some of which share names of queues
    storm_folder = folder / "amqpstorm-3.1.4"
    made["amqpstorm reliability"] = (storm_folder, [*storm_command, str(reliability)], storm)
    made["amqpstorm"] = (storm_folder, [*storm_command, f"--ignore={reliability}", str(functional)], storm)
    return made


def prepare(cache, url):
    """aiorabbit's suite reads its URL from a file, and imports itself as a package."""
    folder = cache / "published" / "aiorabbit-1.0.3"
    (folder / "build").mkdir(exist_ok=True)
    (folder / "build" / "test-environment").write_text(f"RABBITMQ_URI={url}\n")
    (folder / "tests" / "__init__.py").touch()


def count(text):
    """Passed and failed tests, of pytest or of go test -v."""
    if last := re.findall(r"^.*\d+ (?:passed|failed|error).* in [\d.]+s.*$", text, re.MULTILINE):
        numbers = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", last[-1])}
        return numbers.get("passed", 0), numbers.get("failed", 0) + numbers.get("error", 0)
    return len(re.findall(r"^--- PASS", text, re.MULTILINE)), len(re.findall(r"^--- FAIL|^panic:", text, re.MULTILINE))


def run(name, suite, logs):
    folder, command, environment = suite
    begin = time.monotonic()
    done = subprocess.run(command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, errors="replace")
    text = done.stdout + done.stderr
    (logs / f"published-{name.replace(' ', '-')}.log").write_text(text)
    passed, failed = count(text)
    ok = done.returncode == 0 and passed > 0
    print(f"{'ok  ' if ok else 'FAIL'} {name:24} {passed:4} passed {failed:3} failed {time.monotonic() - begin:5.0f} s", flush=True)
    if not ok:
        print("\n".join(text.splitlines()[-30:]), flush=True)
    return passed, failed + (not ok and failed == 0)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--url", required=True)
    options.add_argument("--cache", type=pathlib.Path, required=True)
    options.add_argument("--logs", type=pathlib.Path)
    options.add_argument("suite", nargs="*")
    options = options.parse_args()
    cache = options.cache.resolve()
    logs = options.logs or cache / "test-logs"
    logs.mkdir(parents=True, exist_ok=True)
    prepare(cache, options.url)
    chosen = {
        name: suite
        for name, suite in suites(cache, options.url).items()
        if not options.suite or name.split()[0] in options.suite
    }
    with concurrent.futures.ThreadPoolExecutor(len(chosen)) as pool:
        results = list(pool.map(lambda item: run(*item, logs), chosen.items()))
    passed, failed = (sum(column) for column in zip(*results))
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
