#!/usr/bin/env python3
"""Stand-in for `rabbitmqctl` and `rabbitmq-streams` in the suite of the Java client: commands of Warren, and its few expressions of Erlang.

WARREN_BIN and WARREN_DATA_DIR say which server. An expression that has no counterpart fails, and with it the test.
"""

import os
import re
import subprocess
import sys

EXPRESSIONS = [
    (r"nodes\(\)\.", None),
    (r'exit\(rabbit_misc:string_to_pid\("(.+)"\), kill\)\.', ("close_connection", "{}", "killed by a test")),
    (r"rabbit_alarm:set_alarm\(.*disk.*\)\.", ("set_disk_free_limit", "1000TB")),
    (r"rabbit_alarm:clear_alarm\(.*disk.*\)\.", ("set_disk_free_limit", "50MB")),
    (r"rabbit_alarm:set_alarm\(.*memory.*\)\.", ("set_vm_memory_high_watermark", "absolute", "1")),
    (r"rabbit_alarm:clear_alarm\(.*memory.*\)\.", ("set_vm_memory_high_watermark", "0.6")),
    (r"rabbit_maintenance:drain\(\)\.", ("drain",)),
    (r"rabbit_maintenance:revive\(\)\.", ("revive",)),
]


def words_of(expression):
    """The command for an expression; empty: there is nothing to do."""
    for pattern, words in EXPRESSIONS:
        if found := re.fullmatch(pattern, expression):
            return [word.format(*found.groups()) for word in words or ()]
    sys.exit(f"no counterpart: {expression}")


def main(words):
    if words[:1] == ["eval"]:
        words = words_of(words[1])
        if not words:
            print("[]")
            return 0
    return subprocess.run([os.environ["WARREN_BIN"], "ctl", *words]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
