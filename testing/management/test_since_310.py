"""Answers that a client of RabbitMQ 3.10 relies on: where 3.10 answered (seen/, made by record.py), Warren does, with the same fields."""

import json
import pathlib

import pytest

from differs import gone_since_310
from scenario import run, summary

SEEN = json.loads((pathlib.Path(__file__).parent / "seen" / "rabbitmq-3.10.json").read_text())


@pytest.fixture(scope="module")
def ours(api, broker):
    return summary(run(api, broker.amqp))


@pytest.mark.parametrize("nth", range(len(SEEN)), ids=[line["request"][:60] for line in SEEN])
def test_what_310_answered_is_answered(ours, nth):
    theirs, own = SEEN[nth], ours[nth]
    assert theirs["request"] == own["request"]
    found = []
    if theirs["status"] < 300 <= own["status"]:
        found.append(f"status: {theirs['status']} -> {own['status']}")
    if "shape" in theirs and "shape" in own:
        found += [f"missing: {line}" for line in sorted(set(theirs["shape"]) - set(own["shape"]))]
    assert [line for line in found if not gone_since_310(theirs["request"], line)] == []
