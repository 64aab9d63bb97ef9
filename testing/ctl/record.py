#!/usr/bin/env python3
"""Runs the command lines of cases.py against a real RabbitMQ and writes what its tools answered to seen/.

    record.py --ctl COMMAND --diagnostics COMMAND [--tools FOLDER] --port AMQP_PORT --node NODE --out seen/rabbitmq-4.3.json
              [--stop COMMAND] [--beside FILE] [--only GROUP]

The commands run rabbitmqctl and rabbitmq-diagnostics of a broker on this machine that holds nothing but its defaults. With --stop the
broker is stopped at the end and the lines for a broker that does not run are recorded too. In --tools lie the other tools, such as
rabbitmq-plugins; without it their lines are not recorded. With --only one group is recorded anew, and nothing is set up before it:
for lines that do not depend on what the broker holds. With --beside only what
means something else than in that file is kept. Knows no Warren."""

import argparse
import json
import os
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cases  # noqa: E402
import client  # noqa: E402
import differs  # noqa: E402
import normal  # noqa: E402


class Recorder:
    """Answers so far, written after each."""

    def __init__(self, options):
        self.options, self.seen = options, []

    def run(self, line, stdin, pid=""):
        words = shlex.split(line.replace("{port}", str(self.options.port)).replace("{dir}", "/tmp").replace("{pid}", shlex.quote(pid)))
        named = words.pop(0) if words and words[0].startswith("rabbitmq-") else "rabbitmqctl"
        known = {"rabbitmqctl": self.options.ctl, "rabbitmq-diagnostics": self.options.diagnostics}
        tool = shlex.split(known.get(named) or os.path.join(self.options.tools, named))
        done = subprocess.run([*tool, *words], input=stdin or "", capture_output=True, text=True, timeout=400)
        return {"exit": done.returncode, "out": done.stdout, "err": done.stderr}

    def group(self, name, text, keep=None):
        for at, (line, stdin, _) in enumerate(cases.cases(text)):
            pid = self.run("list_connections -s pid", None)["out"].strip() if "{pid}" in line else ""
            if keep and keep[0].is_open:
                try:
                    keep[0].process_data_events(0)
                except client.pika.exceptions.AMQPError:
                    pass
            answer = self.run(line, stdin, pid)
            self.seen.append(entry(name, at, line, self.options.node, answer))


def entry(group, at, line, node, answer):
    """One line of the file; what is not compared is not kept, but for the exit code."""
    if differs.find(group, line):
        answer = {"exit": answer["exit"], "out": "", "err": ""}
    answer = {part: answer[part] for part in ("exit", "out", "err")}
    if "Available commands" in answer["err"]:
        answer["err"] = answer["err"].split("Usage")[0]
    return {"group": group, "at": at, "line": line, "node": node, **answer}


def not_in(other, seen):
    """The lines that mean something else than the same line there."""
    known = {(one["group"], one["at"]): normal.comparable(one) for one in other}
    return [one for one in seen if known.get((one["group"], one["at"])) != normal.comparable(one)]


def write(path, seen):
    with open(path, "w") as out:
        json.dump(seen, out, indent=1)
        out.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option in ("ctl", "diagnostics", "node", "out"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--stop", default="")
    parser.add_argument("--beside", default="")
    parser.add_argument("--tools", default="")
    parser.add_argument("--only", default="")
    recorder = Recorder(parser.parse_args())
    if recorder.options.only:
        recorder.group(recorder.options.only, cases.GROUPS[recorder.options.only])
        with open(recorder.options.out) as known:
            kept = [one for one in json.load(known) if one["group"] != recorder.options.only]
        return write(recorder.options.out, kept + recorder.seen)
    for line, stdin, _ in cases.cases(cases.SETUP):
        recorder.run(line, stdin)
    keep = client.connect(recorder.options.port)
    for name, text in cases.GROUPS.items():
        if name == "tools" and not recorder.options.tools:
            continue
        if name == "queues":
            client.more(keep)
        recorder.group(name, text, keep)
    if recorder.options.stop:
        subprocess.run(shlex.split(recorder.options.stop), check=True)
        recorder.group("without", cases.WITHOUT_BROKER)
    seen = recorder.seen
    if recorder.options.beside:
        with open(recorder.options.beside) as other:
            seen = not_in(json.load(other), seen)
    write(recorder.options.out, seen)


if __name__ == "__main__":
    main()
