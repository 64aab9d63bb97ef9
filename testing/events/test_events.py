"""B176: what is done to Warren is told as RabbitMQ 4.3.6 tells it: the same events, step by step, with the same headers, types and
values. `seen/` was recorded by `record.py`; what is different on purpose stands in `differs.py`."""

import json
import pathlib

import pytest

import differs
from scenes import SCENES

SEEN = json.loads((pathlib.Path(__file__).parent / "seen" / "rabbitmq-4.3.json").read_text())


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_b176_events_are_rabbitmqs(stage, scene):
    expected = [differs.expected(scene.__name__, step) for step in SEEN[scene.__name__]]
    counts = [len(step["events"]) for step in expected] if scene.__name__ != "shovels" else None
    played = [differs.told(scene.__name__, step) for step in stage.play(scene, counts)]
    differences = [line for ours, theirs in zip(played, expected, strict=True) for line in compared(ours, theirs)]
    assert not differences, "\n".join(differences)


def compared(ours, theirs):
    """The difference in a step, in words."""
    assert ours["step"] == theirs["step"]
    mine, yours = list(ours["events"]), []
    for event in theirs["events"]:
        if event in mine:
            mine.remove(event)
        else:
            yours.append(event)
    for key, headers in yours:
        near = next((it for it in mine if it[0] == key), None)
        if near is None:
            yield f"{ours['step']}: not told: {key} {headers}"
            continue
        mine.remove(near)
        for name in sorted({*headers, *near[1]}):
            if headers.get(name) != near[1].get(name):
                yield f"{ours['step']}: {key}: {name} is {near[1].get(name)}, with RabbitMQ {headers.get(name)}"
    for key, headers in mine:
        yield f"{ours['step']}: RabbitMQ does not tell: {key} {headers}"
