"""The scenario against Warren, compared with what RabbitMQ 4.3 answered (seen/, made by record.py), step by step."""

import json
import pathlib

import pytest

from differs import differs_on_purpose
from scenario import run, summary

SEEN = json.loads((pathlib.Path(__file__).parent / "seen" / "rabbitmq-4.3.json").read_text())


@pytest.fixture(scope="module")
def ours(api, broker):
    return summary(run(api, broker.amqp))


def test_the_same_steps_are_compared(ours):
    assert [line["request"] for line in ours] == [line["request"] for line in SEEN]


@pytest.mark.parametrize("nth", range(len(SEEN)), ids=[line["request"][:60] for line in SEEN])
def test_answers_are_alike(ours, nth):
    theirs, own = SEEN[nth], ours[nth]
    found = []
    for key in ["status", "refusal", "location"]:
        if theirs.get(key) != own.get(key):
            found.append(f"{key}: {theirs.get(key)} -> {own.get(key)}")
    if "shape" in theirs and "shape" in own:
        found += [f"missing: {line}" for line in sorted(set(theirs["shape"]) - set(own["shape"]))]
        found += [f"extra: {line}" for line in sorted(set(own["shape"]) - set(theirs["shape"]))]
    assert [line for line in found if not differs_on_purpose(theirs["request"], line)] == []
