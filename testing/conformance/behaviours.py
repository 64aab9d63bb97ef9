"""Keeps the map of compatibility true: behaviours.csv, features.csv and the page docs/compatibility.md, made from both.

``python behaviours.py`` collects the tests by their names and rewrites the column of tests and the tables of the page; titles,
states and notes are written by hand in the two files. ``--check`` changes nothing and fails if anything is not current: a number
without a row, a row without a state, a "works" without a proof, a test that does not exist. It knows nothing of any broker.
"""

import ast
import csv
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "compatibility.md"
FOLDERS = ["conformance", "configured", "events", "lifecycle", "management", "mqtt", "prometheus", "streamproto"]  # of testing/, whose tests carry numbers
BEHAVIOURS, FEATURES = HERE / "behaviours.csv", HERE / "features.csv"
LAST = {"B": 194, "F": 235}
STATES = ["works", "partly", "differs", "not yet"]
SHOWN = 3  # tests named per row of the page; the rest is counted


def tests_by_number():
    """{"B001": ["test_handshake.py::test_b001_...", ...]} from the names of the test functions."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((HERE.parent / folder).glob("test_*.py")):
            name = path.name if folder == HERE.name else f"{folder}/{path.name}"
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.FunctionDef) and (match := re.match(r"test_([bf]\d{3})_", node.name)):
                    found.setdefault(match[1].upper(), []).append(f"{name}::{node.name}")
    for path in sorted((HERE.parent / "amqp10").glob("*.test.js")):  # there a comment before a test has its numbers
        for match in re.finditer(r"^// ((?:[BF]\d{3} ?)+)$", path.read_text(), re.MULTILINE):
            for number in match[1].split():
                found.setdefault(number, []).append(f"amqp10/{path.name}")
    return found


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows):
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def behaviours(found):
    """The rows of behaviours.csv with today's tests; new numbers get an empty title, which the check refuses."""
    rows = {row["behaviour"]: row for row in read(BEHAVIOURS)}
    for number in found.keys() - rows.keys():
        if number.startswith("B"):
            rows[number] = {"behaviour": number, "title": "", "tests": "", "note": ""}
    return [rows[key] | {"tests": " ".join(found.get(key, []))} for key in sorted(rows)]


def behaviour_state(row):
    """The state, the note without it, and the proofs. A note may begin with a state: ``not yet: AREA``, ``differs: WHY``."""
    for state in STATES[1:]:
        if row["note"].startswith(state + ": "):
            return state, row["note"].removeprefix(state + ": "), row["tests"].split()
    return "works" if row["tests"] else "", row["note"], row["tests"].split()


def feature_proofs(row, found):
    """The tests of a feature: its own by their number, those of the behaviours it names, and those it names itself."""
    proofs = list(found.get(row["feature"], []))
    for word in row["proof"].split():
        proofs += found.get(word, [f"{word} (no tests)"]) if re.fullmatch(r"[BF]\d{3}", word) else [word]
    return list(dict.fromkeys(proofs))


def place(proof):
    """The file that a proof names: a test of this folder, of testing/, or a path of the repository."""
    name = proof.split("::")[0]
    for candidate in (HERE / name, HERE.parent / name, ROOT / name):
        if candidate.is_file():
            return candidate
    return None


def problems(rows):
    """The faults of the map, from (number, title, state, note, proofs)."""
    numbers = {row[0] for row in rows}
    for letter, last in LAST.items():
        yield from (f"{key}: no row" for n in range(1, last + 1) if (key := f"{letter}{n:03}") not in numbers)
    for number, title, state, note, proofs in rows:
        if not title or state not in STATES:
            yield f"{number}: no title, or no state ({state!r}), or no test"
        if state in ("works", "partly") and not proofs:
            yield f"{number}: says {state!r} and names no test"
        if state != "works" and not note:
            yield f"{number}: says {state!r} and not what, why or where"
        for proof in proofs:
            path, _, function = proof.partition("::")
            file = place(proof)
            if file is None or (function and not re.search(rf"\b(def|fn) {function}\b", file.read_text())):
                yield f"{number}: {proof} does not exist"


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def table(rows):
    """A table of the page."""
    lines = ["| number | what | state | tests | notes |", "| --- | --- | --- | --- | --- |"]
    for number, title, state, note, proofs in rows:
        names = ", ".join(f"`{proof.replace('::', ' ')}`" for proof in proofs[:SHOWN])
        more = f" and {len(proofs) - SHOWN} more" if len(proofs) > SHOWN else ""
        lines.append(f"| {number} | {cell(title)} | {state} | {names}{more} | {cell(note)} |")
    return "\n".join(lines) + "\n"


def counts(rows):
    found = [row[2] for row in rows]
    return ", ".join(f"{found.count(state)} {state}" for state in STATES) + "."


def page(tables):
    """The page with its generated parts replaced; each stands between two comments that name it."""
    text = PAGE.read_text()
    for name, made in tables.items():
        begin, end = f"<!-- {name}: made by testing/conformance/behaviours.py -->\n", f"<!-- end of {name} -->"
        if begin not in text or end not in text:
            sys.exit(f"{PAGE}: the comments of the part {name!r} are missing")
        text = text[: text.index(begin) + len(begin)] + made + text[text.index(end) :]
    return text


def main():
    found = tests_by_number()
    listed = behaviours(found)
    b_rows = [(row["behaviour"], row["title"], *behaviour_state(row)) for row in listed]
    f_rows = [(r["feature"], r["title"], r["state"], r["note"], feature_proofs(r, found)) for r in read(FEATURES)]
    wrong = list(problems(b_rows + f_rows))
    parts = {"features": counts(f_rows) + "\n\n" + table(f_rows), "behaviours": counts(b_rows) + "\n\n" + table(b_rows)}
    made = page(parts)
    if "--check" in sys.argv:
        if listed != read(BEHAVIOURS):
            wrong.append("behaviours.csv is not current")
        if made != PAGE.read_text():
            wrong.append("docs/compatibility.md is not current")
    else:
        write(BEHAVIOURS, listed)
        PAGE.write_text(made)
    if wrong:
        sys.exit("\n".join(wrong) + f"\nthen run python {pathlib.Path(__file__).name}")


if __name__ == "__main__":
    main()
