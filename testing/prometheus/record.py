#!/usr/bin/env python3
"""Writes down which metrics a real RabbitMQ has on its Prometheus pages: names, types, labels.

    record.py --url AMQP_URL --base http://127.0.0.1:15692 --out seen/rabbitmq-4.3.json

Metrics of the Erlang machine (erlang_*) are left out, but counted. Leaves no objects behind."""

import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import families  # noqa: E402
import traffic  # noqa: E402

# RabbitMQ's statistics are that old at most.
INTERVAL_S = 6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--base", required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    with traffic.traffic(options.url) as connection:
        connection.sleep(INTERVAL_S)
        pages = {}
        for page in families.PAGES:
            pages[page] = families.shape(families.fetch(options.base, page), lambda name: not name.startswith("erlang_"))
            connection.process_data_events(0)
            time.sleep(0)
    with open(options.out, "w", encoding="utf-8") as out:
        json.dump(pages, out, indent=1, sort_keys=True)
        out.write("\n")
    print(f"{sum(map(len, pages.values()))} metrics on {len(pages)} pages")


if __name__ == "__main__":
    main()
