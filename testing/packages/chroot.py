#!/usr/bin/env python3
"""Runs a program of an unpacked image as the image would: in its file tree, as its user, with no other environment. Needs root.

    chroot.py ROOT NAME=VALUE... -- PROGRAM ARGUMENT...

Without namespaces: the network is that of this machine.
"""

import os
import sys

ID = 65532

cut = sys.argv.index("--")
root, pairs, command = sys.argv[1], sys.argv[2:cut], sys.argv[cut + 1:]
os.chroot(root)
os.chdir("/var/lib/warren")
os.setgroups([])
os.setgid(ID)
os.setuid(ID)
os.execve(command[0], command, dict(pair.split("=", 1) for pair in pairs))
