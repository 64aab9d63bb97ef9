#!/usr/bin/env python3
"""Writes a container image without a container daemon: an OCI layout in one tar file, which `docker load`, `podman load` and
`skopeo copy oci-archive:FILE` read.

    packaging/oci.py --root ROOT.tar --name NAME:TAG... --version V --revision COMMIT --arch amd64 --epoch SECONDS --sbom SBOM.json --out FILE

ROOT.tar is all that is in the image, as one layer. The command of the image stands in `settings` below. The same input gives
the same bytes. Needs Python 3.8, and nothing else.
"""

import argparse
import datetime
import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

USER = "65532:65532"  # the user of images without root
DATA = "/var/lib/warren"


def settings(arguments, created):
    """What `docker inspect` shows: the same fields for Docker, Podman and Kubernetes. Durations are nanoseconds."""
    second = 1_000_000_000
    return {
        "User": USER,
        "WorkingDir": DATA,
        "Env": [
            "PATH=/usr/bin",
            "WARREN_DATA_DIR=" + DATA,
            "WARREN_CONFIG_DIR=/etc/rabbitmq",
            "WARREN_ALL_INTERFACES=true",
        ],
        "Volumes": {DATA: {}},
        "ExposedPorts": {f"{port}/tcp": {} for port in (5671, 5672, 15671, 15672, 15691, 15692)},
        "StopSignal": "SIGTERM",
        "Entrypoint": ["/usr/bin/warren"],
        "Cmd": ["server"],
        # Docker's own field; Kubernetes has probes instead (packaging/helm).
        "Healthcheck": {
            "Test": ["CMD", "/usr/bin/warren", "ctl", "--quiet", "--timeout", "4", "check_running"],
            "Interval": 10 * second,
            "Timeout": 5 * second,
            "StartPeriod": 60 * second,
            "Retries": 3,
        },
        "Labels": {
            "org.opencontainers.image.title": "warren",
            "org.opencontainers.image.description": "Message broker that RabbitMQ's applications use unchanged",
            "org.opencontainers.image.version": arguments.version,
            "org.opencontainers.image.revision": arguments.revision,
            "org.opencontainers.image.created": created,
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.documentation": "/usr/share/doc/warren/README.md",
        },
    }


class Layout:
    """Blobs by their digests, and the tar that holds them."""

    def __init__(self, epoch):
        self.epoch, self.files = epoch, {}

    def blob(self, data, media_type):
        digest = hashlib.sha256(data).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def write(self, path):
        with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
            for name in sorted(self.files):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime, entry.mode = len(self.files[name]), self.epoch, 0o644
                tar.addfile(entry, io.BytesIO(self.files[name]))


def text(value):
    return json.dumps(value, indent=1, sort_keys=True).encode()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", action="append", required=True, help="further ones are for `docker load`")
    for name in ("root", "version", "revision", "arch", "epoch", "sbom", "out"):
        parser.add_argument("--" + name, required=True)
    arguments = parser.parse_args()
    epoch = int(arguments.epoch)
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    oci = "application/vnd.oci.image."
    layout = Layout(epoch)

    root = Path(arguments.root).read_bytes()
    layer = layout.blob(gzip.compress(root, 9, mtime=0), oci + "layer.v1.tar+gzip")
    config = layout.blob(
        text({
            "architecture": arguments.arch,
            "os": "linux",
            "created": created,
            "config": settings(arguments, created),
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(root).hexdigest()]},
            "history": [{"created": created, "created_by": "packaging/image.sh"}],
        }),
        oci + "config.v1+json",
    )
    manifest = layout.blob(
        text({
            "schemaVersion": 2,
            "mediaType": oci + "manifest.v1+json",
            "config": config,
            "layers": [layer],
            "annotations": settings(arguments, created)["Labels"],
        }),
        oci + "manifest.v1+json",
    )
    # The bill of materials refers to the image, as registries list it.
    empty = layout.blob(b"{}", "application/vnd.oci.empty.v1+json")
    bill = layout.blob(Path(arguments.sbom).read_bytes(), "application/vnd.cyclonedx+json")
    referrer = layout.blob(
        text({
            "schemaVersion": 2,
            "mediaType": oci + "manifest.v1+json",
            "artifactType": "application/vnd.cyclonedx+json",
            "config": empty,
            "layers": [bill],
            "subject": manifest,
        }),
        oci + "manifest.v1+json",
    )
    # One entry: tools that copy layouts want to know which image is meant, if there are several.
    first = arguments.name[0]
    whole = first if "/" in first else "docker.io/library/" + first
    names = {"org.opencontainers.image.ref.name": first.rpartition(":")[2], "io.containerd.image.name": whole}
    named = dict(manifest, platform={"architecture": arguments.arch, "os": "linux"}, annotations=names)
    layout.files["oci-layout"] = text({"imageLayoutVersion": "1.0.0"})
    layout.files["index.json"] = text({
        "schemaVersion": 2,
        "mediaType": oci + "index.v1+json",
        "manifests": [named],
    })
    layout.files["referrers.json"] = text({
        "schemaVersion": 2,
        "mediaType": oci + "index.v1+json",
        "manifests": [dict(referrer, artifactType="application/vnd.cyclonedx+json")],
    })
    # For `docker load` of versions that do not read OCI layouts.
    path = lambda blob: "blobs/sha256/" + blob["digest"].partition(":")[2]  # noqa: E731
    layout.files["manifest.json"] = text([
        {"Config": path(config), "RepoTags": arguments.name, "Layers": [path(layer)]}
    ])
    layout.write(arguments.out)
    print(manifest["digest"])


if __name__ == "__main__":
    main()
