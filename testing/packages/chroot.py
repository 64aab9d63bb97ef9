#!/usr/bin/env python3
"""Runs a program of an unpacked image as the image would: in its file tree, as its user, with no other environment. Needs root.

    chroot.py ROOT NAME=VALUE... -- PROGRAM ARGUMENT...

/dev and /proc are there, as in every container, and seen by this program only. The network is that of this machine.
"""

import ctypes
import os
import subprocess
import sys

ID = 65532
CLONE_NEWNS = 0x20000

cut = sys.argv.index("--")
root, pairs, command = sys.argv[1], sys.argv[2:cut], sys.argv[cut + 1:]
if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
    sys.exit(f"chroot.py: no mounts of its own: {os.strerror(ctypes.get_errno())}")
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
for name in ("dev", "proc"):
    os.makedirs(f"{root}/{name}", exist_ok=True)
    subprocess.run(["mount", "--rbind", f"/{name}", f"{root}/{name}"], check=True)
os.chroot(root)
os.chdir("/var/lib/warren")
os.setgroups([])
os.setgid(ID)
os.setuid(ID)
os.execve(command[0], command, dict(pair.split("=", 1) for pair in pairs))
