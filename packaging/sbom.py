#!/usr/bin/env python3
"""Writes the software bill of materials of the binary: CycloneDX 1.5 JSON, from Cargo.lock as `cargo metadata` reads it.

    packaging/sbom.py VERSION TARGET > warren.cdx.json      TARGET is a target triple: dependencies of other systems are left out

Lists what is compiled into the binary: normal dependencies of the package `warren`, and theirs. Needs cargo and its downloaded sources.
"""

import hashlib
import json
import subprocess
import sys
from collections import deque


def metadata(target):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", target]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def compiled_in(data):
    """Ids of packages in the binary, with the ids that each needs."""
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    first = next(i for i, package in packages.items() if package["name"] == "warren" and package["source"] is None)
    needs, waiting = {}, deque([first])
    while waiting:
        current = waiting.popleft()
        if current in needs:
            continue
        normal = [
            dependency["pkg"]
            for dependency in nodes[current]["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
        ]
        needs[current] = sorted(normal)
        waiting.extend(normal)
    return first, needs, packages


def component(package, version):
    is_ours = package["source"] is None
    name = package["name"]
    number = version if is_ours else package["version"]
    purl = f"pkg:cargo/{name}@{number}"
    entry = {
        "type": "application" if name == "warren" and is_ours else "library",
        "bom-ref": purl,
        "name": name,
        "version": number,
    }
    if not is_ours:
        entry["purl"] = purl
    if package.get("license"):
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return entry


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    version, target = sys.argv[1:]
    first, needs, packages = compiled_in(metadata(target))
    entries = {i: component(packages[i], version) for i in needs}
    refs = {i: entry["bom-ref"] for i, entry in entries.items()}
    components = sorted((entries[i] for i in needs if i != first), key=lambda it: it["bom-ref"])
    digest = hashlib.sha256(json.dumps([version, target, components]).encode()).hexdigest()
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}",
        "version": 1,
        "metadata": {"component": entries[first]},
        "components": components,
        "dependencies": sorted(
            ({"ref": refs[i], "dependsOn": sorted(refs[j] for j in needs[i])} for i in needs), key=lambda it: it["ref"]
        ),
    }
    json.dump(bill, sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
