#!/usr/bin/env python3
"""Runs `rumqttc.rs`, scenarios of the client rumqttc, against a Warren of its own. The client comes from crates.io at a pinned version.

    rust.py --warren BIN --cache .cache

Exit code 0: every scenario has passed.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "crash")]

from clients import Server  # noqa: E402

VERSION = "0.25.1"
MANIFEST = f"""[package]
name = "rumqttc-suite"
version = "0.0.0"
edition = "2024"
publish = false

[workspace]

[dependencies]
rumqttc = {{ version = "={VERSION}", default-features = false }}
"""


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("--warren", required=True)
    asked.add_argument("--cache", type=pathlib.Path, required=True)
    given = asked.parse_args()
    project = given.cache.resolve() / "rust" / "rumqttc-suite"
    (project / "src").mkdir(parents=True, exist_ok=True)
    (project / "Cargo.toml").write_text(MANIFEST)
    (project / "src" / "main.rs").write_text((HERE / "rumqttc.rs").read_text())
    target = project / "target"
    build = ["cargo", "build", "--quiet"]
    subprocess.run(build, cwd=project, env=os.environ | {"CARGO_TARGET_DIR": str(target)}, check=True)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(given.warren, pathlib.Path(folder)).start()
        try:
            done = subprocess.run([target / "debug" / "rumqttc-suite", str(server.port)], timeout=300)
        finally:
            server.end()
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
