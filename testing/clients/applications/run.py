#!/usr/bin/env python3
"""Runs applications and frameworks that are written for RabbitMQ against a broker by its URL: their own suites, or samples.

    run.py --url amqp://guest:guest@127.0.0.1:5672/%2F --cache .cache [--logs DIR] [APPLICATION...]

`applications.csv` is the table of them, with pinned versions; NAME.sh beside it runs one. A runner gets the broker as URL, HOST,
PORT, BROKER_USER and BROKER_PASSWORD, the folder of `testing/setup.sh applications` as APPS, this folder as HERE, and a Python as
PYTHON. It knows nothing of Warren: a test that fails here and passes on RabbitMQ is the broker's fault. Exit code 0: all passed.
"""

import argparse
import csv
import os
import pathlib
import re
import subprocess
import sys
import time
from urllib.parse import unquote, urlsplit

HERE = pathlib.Path(__file__).resolve().parent
MINUTES_MAX = 30  # for one application


def count(text):
    """Passed and failed tests in what a test runner prints: pytest, stestr, Node, JUnit or Go."""
    if last := re.findall(r"^.*\d+ (?:passed|failed|error).* in [\d.]+s.*$", text, re.MULTILINE):
        numbers = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", last[-1])}
        return numbers.get("passed", 0), numbers.get("failed", 0) + numbers.get("error", 0)
    for passed, failed in (
        (r"^ - Passed: (\d+)", r"^ - Failed: (\d+)"),
        (r"^(?:#|ℹ) pass (\d+)", r"^(?:#|ℹ) fail (\d+)"),
        (r"(\d+) tests successful", r"(\d+) tests failed"),
    ):
        if good := re.findall(passed, text, re.MULTILINE):
            return int(good[-1]), int((re.findall(failed, text, re.MULTILINE) or ["0"])[-1])
    return len(re.findall(r"^\s*--- PASS", text, re.MULTILINE)), len(re.findall(r"^\s*--- FAIL|^panic:", text, re.MULTILINE))


def environment(cache, url):
    place, apps = urlsplit(url), cache / "applications"
    return os.environ | {
        "URL": url,
        "HOST": place.hostname,
        "PORT": str(place.port or 5672),
        "BROKER_USER": unquote(place.username or "guest"),
        "BROKER_PASSWORD": unquote(place.password or "guest"),
        "CACHE": str(cache),
        "APPS": str(apps),
        "HERE": str(HERE),
        "PYTHON": str(apps / "venv" / "bin" / "python"),
    }


def run(name, variables, logs):
    begin = time.monotonic()
    command = ["timeout", f"{MINUTES_MAX}m", "bash", "-euo", "pipefail", str(HERE / f"{name}.sh")]
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    (logs / f"application-{name}.log").write_text(done.stdout)
    passed, failed = count(done.stdout)
    ok = done.returncode == 0 and passed > 0 and failed == 0
    print(f"{'ok  ' if ok else 'FAIL'} {name:16} {passed:4} passed {failed:3} failed {time.monotonic() - begin:5.0f} s", flush=True)
    if not ok:
        print("\n".join(done.stdout.splitlines()[-30:]), flush=True)
    return ok


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--url", required=True)
    options.add_argument("--cache", type=pathlib.Path, required=True)
    options.add_argument("--logs", type=pathlib.Path)
    options.add_argument("application", nargs="*")
    options = options.parse_args()
    with open(HERE / "applications.csv", newline="") as table:
        names = [row["name"] for row in csv.DictReader(table)]
    if unknown := set(options.application) - set(names):
        options.error(f"not in applications.csv: {', '.join(sorted(unknown))}")
    cache = options.cache.resolve()
    logs = options.logs or cache / "test-logs"
    logs.mkdir(parents=True, exist_ok=True)
    variables = environment(cache, options.url)
    results = [run(name, variables, logs) for name in names if not options.application or name in options.application]
    print(f"{sum(results)} of {len(results)} applications pass")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
