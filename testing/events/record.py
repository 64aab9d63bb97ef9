#!/usr/bin/env python3
"""Records which events a real broker sends for the scenes:

    record.py AMQP_URL HTTP_URL NODE FILE CTL...

The broker needs the plugins rabbitmq_event_exchange, rabbitmq_management and, for shovels, rabbitmq_shovel_management. With ONLY=scene in
the environment the others stay as they are in FILE."""

import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "conformance"), str(HERE.parent / "management")]

from scenes import SCENES  # noqa: E402
from stage import Stage  # noqa: E402

if __name__ == "__main__":
    url, http, node, file, *ctl = sys.argv[1:]
    only = os.environ.get("ONLY", "").split()
    seen = json.loads(pathlib.Path(file).read_text()) if only else {}
    stage = Stage(url, http, ctl, node)
    try:
        stage.prepare()
        for scene in SCENES:
            if not only or scene.__name__ in only:
                seen[scene.__name__] = stage.play(scene)
                print(scene.__name__, sum(len(step["events"]) for step in seen[scene.__name__]), flush=True)
    finally:
        stage.clean()
        written = json.dumps(seen, indent=1).replace("\n      ", "").replace("\n     ]", "]")
        pathlib.Path(file).write_text(written + "\n")
