"""The compose file and the Helm chart: they are well formed, fit together, and the configuration they make is one that Warren takes."""

import json
import os
import re
import shutil
import socket
import subprocess
import time

import pytest

yaml = pytest.importorskip("yaml")


@pytest.fixture(scope="session")
def render(root, cache, tmp_path_factory):
    """Documents of the chart with some values, or the text of the refusal."""
    folder = tmp_path_factory.mktemp("render")
    go = {**os.environ, "GOMODCACHE": str(cache / "go/mod"), "GOCACHE": str(cache / "go/build"), "GOTOOLCHAIN": "local",
          "GOFLAGS": "-mod=readonly -modcacherw"}
    subprocess.run(["go", "build", "-o", folder / "render", "."], cwd=root / "testing/packages/helm", env=go, check=True)
    chart = root / "packaging/helm/warren"

    def rendered(**values):
        path = folder / "values.yaml"
        path.write_text(json.dumps(values))
        ours = subprocess.run([folder / "render", chart, "shop", path], capture_output=True, text=True)
        if shutil.which("helm"):  # the real one, where it is
            theirs = subprocess.run(["helm", "template", "shop", chart, "-f", path], capture_output=True, text=True)
            assert (ours.returncode == 0) == (theirs.returncode == 0), theirs.stderr
            subprocess.run(["helm", "lint", chart], check=True)
        if ours.returncode:
            return ours.stderr
        documents = [one for one in yaml.safe_load_all(ours.stdout) if one]
        return {(one["kind"], one["metadata"]["name"]): one for one in documents}

    return rendered


def check(binary, tmp_path, text):
    path = tmp_path / "rabbitmq.conf"
    path.write_text(text)
    done = subprocess.run([binary, "config", "--check", path], capture_output=True, text=True)
    assert done.returncode == 0 and "no problems\n" in done.stdout, done.stdout + done.stderr


def test_the_chart_is_one_node_with_a_volume_probes_and_no_rights(render):
    documents = render()
    assert set(documents) == {
        ("ConfigMap", "shop-warren"), ("Secret", "shop-warren"), ("Service", "shop-warren"), ("Service", "shop-warren-node"),
        ("StatefulSet", "shop-warren"),
    }
    spec = documents["StatefulSet", "shop-warren"]["spec"]
    assert spec["replicas"] == 1 and spec["serviceName"] == "shop-warren-node"
    assert spec["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] == "10Gi"
    pod = spec["template"]["spec"]
    container, = pod["containers"]
    assert spec["podManagementPolicy"] == "Parallel", "it cannot be changed when nodes are added"
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"] and not pod["enableServiceLinks"]
    volumes = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert {port["name"] for port in container["ports"]} == {"amqp", "http", "metrics"}
    for (kind, _), document in documents.items():
        assert document["metadata"]["labels"]["app.kubernetes.io/instance"] == "shop", kind
        if kind == "Service":
            assert document["spec"]["selector"] == spec["selector"]["matchLabels"]
            assert {port["targetPort"] for port in document["spec"]["ports"]} <= {port["name"] for port in container["ports"]}
    password = container["env"][-1]["valueFrom"]["secretKeyRef"]
    assert password == {"name": "shop-warren", "key": "password"}
    assert len(documents["Secret", "shop-warren"]["data"]["password"]) > 20


def test_an_even_number_of_nodes_is_refused_with_the_reason(render):
    for replicas in (0, 2, 4):
        assert f"replicas is {replicas}: it must be 1, 3, 5 or another odd number" in render(replicas=replicas)


def environments(documents):
    """The environment of each pod of the stateful set; a value from a secret is its key."""
    spec = documents["StatefulSet", "shop-warren"]["spec"]
    container, = spec["template"]["spec"]["containers"]
    for nth in range(spec["replicas"]):
        pod = {"POD_NAME": f"shop-warren-{nth}"}
        for one in container["env"][1:]:
            pod[one["name"]] = one["value"].replace("$(POD_NAME)", pod["POD_NAME"]) if "value" in one else one["valueFrom"]["secretKeyRef"]["key"]
        yield pod


def test_the_chart_makes_a_cluster_of_three(render):
    documents = render(replicas=3)
    spec = documents["StatefulSet", "shop-warren"]["spec"]
    assert spec["replicas"] == 3 and spec["podManagementPolicy"] == "Parallel", "the first start waits for all of them"
    assert documents["PodDisruptionBudget", "shop-warren"]["spec"]["maxUnavailable"] == 1
    assert "podAntiAffinity" in spec["template"]["spec"]["affinity"]
    pods = list(environments(documents))
    hosts = [f"shop-warren-{nth}.shop-warren-node" for nth in range(3)]
    assert [pod["WARREN_NODE"] for pod in pods] == [f"rabbit@{host}" for host in hosts]
    assert {pod["WARREN_CLUSTER_SEEDS"] for pod in pods} == {",".join(f"{host}:25672" for host in hosts)}
    service = documents["Service", "shop-warren-node"]["spec"]
    assert service["publishNotReadyAddresses"] and {port["port"] for port in service["ports"]} == {15672, 25672}
    assert len(documents["Secret", "shop-warren"]["data"]["cookie"]) > 30
    alone, = environments(render())
    assert alone["WARREN_NODE"] == pods[0]["WARREN_NODE"], "a node keeps its name, so that nodes can be added"
    assert "WARREN_CLUSTER_SEEDS" not in alone and ("PodDisruptionBudget", "shop-warren") not in render()


def test_three_nodes_with_the_environment_of_the_chart_are_a_cluster(render, binary, tmp_path):
    """The names of pods lead to ports of this machine; everything else is as the chart says."""
    pods = list(environments(render(replicas=3)))
    ports = [free_port() for _ in pods]
    servers = []
    try:
        for pod, port in zip(pods, ports):
            folder = tmp_path / pod["POD_NAME"]
            seeds = ",".join(f"127.0.0.1:{one}" for one in ports)
            own = {"WARREN_LISTEN": "127.0.0.1:0", "WARREN_MANAGEMENT_LISTEN": "127.0.0.1:0", "WARREN_CLUSTER_LISTEN": f"127.0.0.1:{port}",
                   "WARREN_CLUSTER_ADVERTISE": f"127.0.0.1:{port}", "WARREN_CLUSTER_SEEDS": seeds, "WARREN_DATA_DIR": str(folder), "PATH": os.environ["PATH"]}
            off = tmp_path / "rabbitmq.conf"
            off.write_text("prometheus.tcp.listener = none\n")
            log = (tmp_path / f"{pod['POD_NAME']}.log").open("wb")
            servers.append(subprocess.Popen([binary, "server", "--config", off], env={**pod, **own}, stdout=log, stderr=log))

        def ctl(pod, *words):
            command = [binary, "ctl", "--data-dir", tmp_path / pod["POD_NAME"], "-q", *words]
            return subprocess.run(command, capture_output=True, text=True)

        for pod in pods:
            wait_until(lambda: ctl(pod, "check_running").returncode == 0)
            status = json.loads(ctl(pod, "cluster_status", "--formatter", "json").stdout)
            assert sorted(status["running_nodes"]) == [one["WARREN_NODE"] for one in pods]
            assert "shop" in ctl(pod, "list_users").stdout, "the first user is on all nodes"
    finally:
        for server in servers:
            server.kill()
            server.wait()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(is_so):
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline, "waited for two minutes"
        time.sleep(0.2)


def test_a_value_that_the_chart_does_not_have_is_refused(render):
    assert "values.yaml has no" in render(replicaCount=1)


def test_the_configuration_that_the_chart_writes_is_taken(render, binary, tmp_path):
    plain = render()["ConfigMap", "shop-warren"]["data"]
    check(binary, tmp_path, plain["rabbitmq.conf"] + plain["local.conf"])
    documents = render(tls={"secretName": "certificate", "caInSecret": True, "clear": False}, definitions='{"users": []}',
                       auth={"existingSecret": "mine"}, metrics={"serviceMonitor": True})
    assert ("Secret", "shop-warren") not in documents and ("ServiceMonitor", "shop-warren") in documents
    data = documents["ConfigMap", "shop-warren"]["data"]
    check(binary, tmp_path, data["rabbitmq.conf"] + data["local.conf"])
    links = render(replicas=3, tls={"secretName": "certificate", "caInSecret": True, "cluster": True})["ConfigMap", "shop-warren"]["data"]
    check(binary, tmp_path, links["rabbitmq.conf"])
    assert "warren.cluster.tls = true" in links["rabbitmq.conf"] and "cluster.tls" not in data["rabbitmq.conf"]
    assert "listeners.tcp = none" in data["rabbitmq.conf"] and "verify_peer" in data["rabbitmq.conf"]
    assert json.loads(data["definitions.json"]) == {"users": []}
    pod = documents["StatefulSet", "shop-warren"]["spec"]["template"]["spec"]
    assert {port["name"] for port in pod["containers"][0]["ports"]} == {"http", "metrics", "amqps", "https"}
    assert {port["name"] for port in documents["Service", "shop-warren"]["spec"]["ports"]} == {"http", "metrics", "amqps", "https"}
    configuration, tls = pod["volumes"]
    assert [item["path"] for item in configuration["configMap"]["items"]] == ["rabbitmq.conf", "conf.d/20-local.conf", "definitions.json"]
    assert tls["secret"] == {"secretName": "certificate", "defaultMode": 0o440}
    environment = {one["name"]: one for one in pod["containers"][0]["env"]}
    assert environment["RABBITMQ_DEFAULT_PASS"]["valueFrom"]["secretKeyRef"]["name"] == "mine"


def test_the_compose_file_fits_its_files_and_the_image(root, binary, tmp_path):
    folder = root / "packaging/compose"
    compose = yaml.safe_load((folder / "compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"warren", "prometheus"} and services["prometheus"]["profiles"] == ["metrics"]
    for service in services.values():
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            assert (folder / source).is_file() if source.startswith(".") else source in compose["volumes"], mount
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:"), "published on this machine only"
    scrape = yaml.safe_load((folder / "prometheus.yml").read_text())
    assert {target for job in scrape["scrape_configs"] for one in job["static_configs"] for target in one["targets"]} == {"warren:15692"}
    check(binary, tmp_path, (folder / "conf.d/20-local.conf").read_text())
    image = (root / "packaging/oci.py").read_text()
    test = services["warren"]["healthcheck"]["test"]
    assert ", ".join(json.dumps(word) for word in test[1:]) in image, "the health check of the image"
    assert re.search(r'DATA = "/var/lib/warren"', image) and "data:/var/lib/warren" in services["warren"]["volumes"]
    assert {name for name in services["warren"]["environment"]} == {"RABBITMQ_DEFAULT_USER", "RABBITMQ_DEFAULT_PASS", "RABBITMQ_DEFAULT_VHOST"}
