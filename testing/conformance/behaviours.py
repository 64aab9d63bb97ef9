"""Keeps behaviours.csv in step with the tests: one row per numbered behaviour, with the tests that show it.

Run it after adding tests: ``python behaviours.py`` rewrites the column of test names and keeps titles and notes;
``--check`` only says whether the file is current. It knows nothing of any broker.
"""

import ast
import csv
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
FILE = HERE / "behaviours.csv"
COLUMNS = ["behaviour", "title", "tests", "note"]


def tests_by_behaviour():
    """{"B001": ["test_handshake.py::test_b001_...", ...]} from the test functions' names."""
    found = {}
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and (match := re.match(r"test_([bf]\d{3})_", node.name)):
                found.setdefault(match[1].upper(), []).append(f"{path.name}::{node.name}")
    return found


def current():
    """The rows as they should be: those of the file, with today's tests."""
    rows = {row["behaviour"]: row for row in csv.DictReader(FILE.open(newline=""))}
    found = tests_by_behaviour()
    for behaviour in found.keys() - rows.keys():
        rows[behaviour] = {"behaviour": behaviour, "title": "", "note": ""}
    return [rows[key] | {"tests": " ".join(found.get(key, []))} for key in sorted(rows)]


def main():
    rows = current()
    untitled = [row["behaviour"] for row in rows if not row["title"]]
    if "--check" in sys.argv:
        stale = rows != list(csv.DictReader(FILE.open(newline="")))
        if stale or untitled:
            sys.exit(f"behaviours.csv is not current (untitled: {untitled}): run python {pathlib.Path(__file__).name}")
        return
    with FILE.open("w", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    if untitled:
        print("rows without a title:", *untitled)


if __name__ == "__main__":
    main()
