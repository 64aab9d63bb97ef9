"""Texts that two brokers may have different and still mean the same: names of nodes, process ids, ports, times, the order of rows, how a
table is drawn. Knows no command."""

import json
import re

LINES = str.maketrans("lqwktnuxmvj", "┌─┬┐├┼┤│└┴┘")      # DEC line drawing, as RabbitMQ draws tables


def text(words, node, exact=False):
    """One output stream in comparable form; empty lines at its ends count only where they are looked for."""
    words = re.sub(r"\x1b\(0(.*?)\x1b\(B", lambda drawn: drawn.group(1).translate(LINES), words)
    words = re.sub(r"\x1b\[\d*m", "", words)
    words = re.sub(r'#PID<[\d.]+>|"Pid\(#PID<[\d.]+>\)"|<\d+\.\d+\.\d+>(?!\.)', "PID", words)
    words = re.sub(rf"<{re.escape(node)}\.\d+\.\d+\.\d+>", "PID", words).replace('"PID"', "PID")
    words = words.replace(node, "NODE")
    words = re.sub(r"\bPython 3\.\d+\.\d+", "Python", words)     # what the client says of its machine
    words = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", words)
    words = re.sub(r"\b\d{5}\b", "PORT", words)                     # every port here has five digits, and nothing else does
    words = re.sub(r"^[A-Za-z0-9+/]{48}$", "HASH", words, flags=re.M)
    words = re.sub(r"\b1[78]\d{11}\b", "TIME", words)
    words = re.sub(r"^Hint: .*\n?", "", words, flags=re.M)           # a line of Warren's own below a text of RabbitMQ's
    words = re.sub(r"^(\$|)\d\d:\d\d:\d\d\.\d{3} \[.*\n", "", words, flags=re.M)
    words = re.sub(r"[ \t]+$", "", words, flags=re.M)
    words = squeezed(words)
    return words if exact else words.strip("\n")


def squeezed(words):
    """Cells of drawn tables and Erlang terms without the blanks that only make them fit."""
    if "┌" in words:
        words = re.sub(r"─+", "─", words)
        words = re.sub(r" +", " ", words)
    if re.search(r"^\[\[+\{", words, flags=re.M):
        words = re.sub(r"(?<=[,\[])\n? +", "", words)
        words = re.sub(r",\n(?=\{|\[)", ",", words)
    return words


def rows(words):
    """The lines in an order of their own; banner lines go along."""
    lines = [line.removeprefix(",") for line in words.splitlines()]
    return "\n".join(sorted(lines))


def parsed(words):
    """JSON as a value, or the text itself when it is none."""
    try:
        value = json.loads(words.replace(":PID", ':"PID"').replace(":PORT", ":0"))
    except ValueError:
        return words
    return sorted(value, key=lambda row: json.dumps(row, sort_keys=True)) if isinstance(value, list) else value


def comparable(answer, unordered=True, exact=False):
    """Exit code and streams of an answer to `line` by a broker called `node`."""
    out, err = text(answer["out"], answer["node"], exact), text(answer["err"], answer["node"])
    if exact:
        if "json" in answer["line"] and out.startswith("{"):
            out = parsed(out)
        return {"exit": answer["exit"], "out": out, "err": err}
    if unordered:
        out = rows(out)
    if "json" in answer["line"]:
        out = parsed(out)
    return {"exit": answer["exit"], "out": out, "err": err}
