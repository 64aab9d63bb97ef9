"""The compose file and the Helm chart: they are well formed, fit together, and the configuration they make is one that Warren takes."""

import json
import os
import re
import shutil
import subprocess

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


def test_more_than_one_node_is_refused_with_the_reason(render):
    for replicas in (0, 2, 3):
        assert f"replicas is {replicas}: Warren has no clusters yet" in render(replicas=replicas)


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
