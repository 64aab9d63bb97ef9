#!/usr/bin/env python3
"""Records how a real broker answers the scenario: record.py http://HOST:PORT amqp://USER:PASSWORD@HOST:PORT/ FILE"""

import json
import sys

from api import Api
from scenario import run, summary

if __name__ == "__main__":
    base, amqp, file = sys.argv[1:]
    with open(file, "w") as out:
        json.dump(summary(run(Api(base), amqp)), out, indent=1)
        out.write("\n")
