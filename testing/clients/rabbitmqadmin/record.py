#!/usr/bin/env python3
"""Writes what RabbitMQ answers to cases.py: record.py RABBITMQADMIN AMQP_PORT HTTP_PORT > seen.json. Knows no Warren."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import play  # noqa: E402


def kept(one):
    """The compared part of an answer, so that nothing else is in the file."""
    brief = {"line": one["line"], "exit": one["exit"]}
    if one["how"] == "+":
        brief.update(out=one["out"], err=one["err"])
    if one["how"] == "~":
        brief["columns"] = play.columns(one["out"])
    return brief


if __name__ == "__main__":
    binary, amqp_port, http_port = sys.argv[1:]
    answers = play.play(binary, int(amqp_port), int(http_port))
    print("[\n" + ",\n".join(" " + json.dumps(kept(one)) for one in answers) + "\n]")
