"""rabbit-hole, the Go client of the API that Terraform's provider uses, against our broker."""

import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
CACHE = HERE.parent.parent / ".cache" / "go"


@pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")
def test_rabbit_hole_works_unchanged(broker):
    cache = {"GOMODCACHE": str(CACHE / "mod"), "GOCACHE": str(CACHE / "build"), "GOTOOLCHAIN": "local"}
    env = os.environ | {"GOFLAGS": "-mod=readonly -modcacherw", **{name: os.environ.get(name, value) for name, value in cache.items()}, "API_URL": broker.http}
    ran = subprocess.run(["go", "test", "-count=1", "./..."], cwd=HERE / "rabbithole", env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
