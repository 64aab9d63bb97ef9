"""Hop, the Java client of the HTTP API, against our broker."""

import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
JARS = HERE.parent.parent / ".cache" / "java"


@pytest.mark.skipif(shutil.which("java") is None or not list(JARS.glob("http-client-*.jar")), reason="java or Hop is not there: testing/setup.sh java")
def test_hop_works_unchanged(broker):
    command = ["java", "-cp", f"{JARS}/*", str(HERE / "hop" / "Hop.java"), broker.http]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0 and ran.stdout.endswith("failed: 0\n"), ran.stdout[-3000:] + ran.stderr[-3000:]
