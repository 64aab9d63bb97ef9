"""The conformance suite against each node of a cluster, one after the other.

    python3 conformance.py --warren BINARY [--nodes 2,3] [--balanced] [-- ARGUMENTS OF PYTEST]

Whatever the suite declares belongs to the whole cluster, so each run has to leave nothing behind for the next one.
"""

import argparse
import pathlib
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from nodes import Cluster  # noqa: E402

SUITE = pathlib.Path(__file__).resolve().parent.parent / "conformance"


def passes(node, arguments):
    """Whether the suite passes against this node; pytest exits with 5 when the arguments choose no test."""
    ctl = shlex.join([node.binary, "ctl", "--data-dir", str(node.data)])
    command = [sys.executable, "-m", "pytest", "--url", node.url, "--flavor", "warren", "--ctl", ctl, *arguments, "."]
    print(f"== {node.name}", flush=True)
    return subprocess.run(command, cwd=SUITE).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warren", required=True)
    parser.add_argument("--nodes", default="1,2,3", help="numbers of the nodes that the suite connects to")
    parser.add_argument("--balanced", action="store_true", help="queues go to all nodes, so most are not on the node of the client")
    parser.add_argument("arguments", nargs="*", help="more arguments of pytest")
    options = parser.parse_args()
    binary = pathlib.Path(options.warren).resolve()
    config = (SUITE / "warren.conf").read_text() + ("queue_leader_locator = balanced\n" if options.balanced else "")
    with tempfile.TemporaryDirectory() as folder, Cluster(binary, folder, 3, config) as cluster:
        nodes = [cluster.nodes[int(number) - 1] for number in options.nodes.split(",")]
        failed = [node.name for node in nodes if not passes(node, options.arguments)]
    sys.exit(f"FAILED: {' '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
