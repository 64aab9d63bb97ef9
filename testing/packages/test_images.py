"""The container image, written without a daemon: its parts have the digests they are called by, and say what a container needs."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile

import pytest


@pytest.fixture(scope="module")
def image(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    with tarfile.open(folder / "root.tar", "w") as tar:
        entry = tarfile.TarInfo("usr/bin/warren")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"rot"))
    (folder / "sbom.json").write_text('{"bomFormat": "CycloneDX"}')
    command = [sys.executable, root / "packaging/oci.py", "--root", folder / "root.tar", "--name", "warren:1.2", "--version", "1.2",
               "--revision", "abc", "--arch", "amd64", "--epoch", "1700000000", "--sbom", folder / "sbom.json"]
    digests = [subprocess.run([*command, "--out", folder / out], check=True, capture_output=True, text=True).stdout for out in ("a.tar", "b.tar")]
    assert (folder / "a.tar").read_bytes() == (folder / "b.tar").read_bytes() and digests[0] == digests[1], "the same input, the same bytes"
    with tarfile.open(folder / "a.tar") as tar:
        return digests[0].strip(), {member.name: tar.extractfile(member).read() for member in tar}


def blob(files, descriptor):
    data = files["blobs/" + descriptor["digest"].replace(":", "/")]
    assert hashlib.sha256(data).hexdigest() == descriptor["digest"].split(":")[1] and len(data) == descriptor["size"]
    return data


def test_every_part_is_what_its_digest_says(image):
    digest, files = image
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    named, = json.loads(files["index.json"])["manifests"]
    assert named["digest"] == digest and named["annotations"]["org.opencontainers.image.ref.name"] == "1.2"
    manifest = json.loads(blob(files, named))
    config = json.loads(blob(files, manifest["config"]))
    layer, = manifest["layers"]
    import gzip
    unpacked = gzip.decompress(blob(files, layer))
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(unpacked).hexdigest()]
    load, = json.loads(files["manifest.json"])
    assert load["RepoTags"] == ["warren:1.2"] and load["Config"] in files and load["Layers"][0] in files
    bill, = json.loads(files["referrers.json"])["manifests"]
    referrer = json.loads(blob(files, bill))
    assert referrer["subject"]["digest"] == digest and b"CycloneDX" in blob(files, referrer["layers"][0])


def test_it_runs_as_nobody_with_a_health_check_and_labels(image):
    _, files = image
    named, = json.loads(files["index.json"])["manifests"]
    config = json.loads(blob(files, json.loads(blob(files, named))["config"]))
    settings = config["config"]
    assert settings["User"] == "65532:65532" and settings["Volumes"] == {"/var/lib/warren": {}}
    assert settings["Healthcheck"]["Test"][:2] == ["CMD", "/usr/bin/warren"]
    assert {"5672/tcp", "15672/tcp", "15692/tcp"} <= set(settings["ExposedPorts"])
    labels = settings["Labels"]
    assert labels["org.opencontainers.image.version"] == "1.2" and labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert config["created"] == "2023-11-14T22:13:20Z" and config["architecture"] == "amd64"


def test_the_bill_of_materials_lists_what_is_compiled_in(root):
    done = subprocess.run([sys.executable, root / "packaging/sbom.py", "1.2", "x86_64-unknown-linux-gnu"], cwd=root, check=True,
                          capture_output=True, text=True)
    bill = json.loads(done.stdout)
    names = {component["name"] for component in bill["components"]}
    assert bill["metadata"]["component"]["version"] == "1.2" and {"tokio", "rustls", "broker"} <= names
    assert not {"pytest", "xtask", "windows-sys"} & names, "neither tools nor what other systems need"
    refs = {component["bom-ref"] for component in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    assert {ref for one in bill["dependencies"] for ref in [one["ref"], *one["dependsOn"]]} == refs
