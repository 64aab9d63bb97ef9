#!/usr/bin/env python3
"""Writes the man pages, from what the binary says of itself.

    packaging/man.py WARREN DATE FOLDER      DATE as 2026-01-31; FOLDER gets warren.1, warren-server.1, ...

The texts of `--help` stand in the pages word for word, so that both say the same.
"""

import subprocess
import sys
from pathlib import Path

PAGES = [
    # name, arguments that print the help, one line, further text
    ("warren", ["--help"], "message broker that RabbitMQ's applications use unchanged", """.SH FILES
.TP
.I /etc/warren/rabbitmq.conf
Configuration of the service, with every key in a comment. Files in
.I /etc/warren/conf.d
are read after it.
.TP
.I /var/lib/warren
Data of the service.
.TP
.I /usr/share/doc/warren
The documents.
.SH SEE ALSO
.BR warren-server (1),
.BR warren-ctl (1),
.BR warren-perf (1),
.BR warren-config (1),
.BR warren-diag (1)
"""),
    ("warren-server", ["server", "--help"], "run the broker", """.SH SIGNALS
.TP
.B SIGTERM, SIGINT
Close all connections and logs in order, at most 20 seconds; a second one ends the process at once.
.TP
.B SIGHUP
Read certificates again.
.SH SEE ALSO
.BR warren (1),
.BR warren-ctl (1)
"""),
    ("warren-ctl", ["ctl", "help"], "manage a running broker: the commands of rabbitmqctl", """.SH SEE ALSO
.BR warren (1),
.BR warren-server (1)
"""),
    ("warren-perf", ["perf", "--help"], "generate load and measure", """.SH SEE ALSO
.BR warren (1)
"""),
    ("warren-config", ["config", "--help"], "list every configuration key, or check a file", """.SH SEE ALSO
.BR warren (1),
.BR warren-server (1)
"""),
    ("warren-diag", ["diag", "--help"], "list, check or salvage a data folder while no server runs on it", """.SH SEE ALSO
.BR warren (1),
.BR warren-server (1)
"""),
]


def escaped(text):
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in lines)


def page(warren, date, name, arguments, about, more):
    done = subprocess.run([warren, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30)
    if done.returncode or not done.stdout.strip():
        sys.exit(f"man.py: `{warren} {' '.join(arguments)}` prints no help (exit code {done.returncode})")
    command = "\\ ".join(name.split("-", 1))
    return (
        f'.TH {name.upper().replace("-", chr(92) + "-")} 1 "{date}" "Warren" "Warren"\n.nh\n.ad l\n'
        f".SH NAME\n{escaped(name)} \\- {escaped(about)}\n.SH SYNOPSIS\n.B {command}\n.I ...\n"
        f".SH DESCRIPTION\n.nf\n{escaped(done.stdout.rstrip())}\n.fi\n{more}"
    )


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    warren, date, folder = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, arguments, about, more in PAGES:
        (Path(folder) / f"{name}.1").write_text(page(warren, date, name, arguments, about, more))


if __name__ == "__main__":
    main()
