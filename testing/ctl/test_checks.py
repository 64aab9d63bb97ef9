"""Checks that fail, as monitors call them: what goes where, with which exit code, for people and for programs. As RabbitMQ 4.3.6 does it."""

import json

import pytest
import test_ctl


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    tools = test_ctl.Tools(test_ctl.binary_under_test(), tmp_path_factory.mktemp("checks"))
    server = test_ctl.start(tools, "prometheus.tcp.listener = none\n")
    tools.http = server.http
    try:
        yield tools
    finally:
        server.stop()


@pytest.fixture(params=["socket", "http"])
def run(tools, request):
    def run(line):
        answer = tools.run(f"{line} --url http://guest:guest@{tools.http}" if request.param == "http" else line, None)
        return answer["exit"], answer["out"], answer["err"]
    return run


@pytest.fixture
def alarm(tools):
    assert tools.run("set_vm_memory_high_watermark absolute 1000", None)["exit"] == 0
    yield
    assert tools.run("set_vm_memory_high_watermark 0.6", None)["exit"] == 0


def test_an_alarm_is_told_on_standard_error_in_the_form_that_is_asked_for(run, alarm):
    check = "rabbitmq-diagnostics check_alarms"
    code, out, text = run(f"{check} -q")
    assert (code, out) == (69, "") and text.startswith("Memory alarm on node ")
    assert run(f"{check} --formatter csv") == (69, "", text)
    assert run(f"{check} -s") == (69, "", "")
    for silent in ("", "-s "):
        code, out, error = run(f"{check} {silent}--formatter json")
        said = json.loads(error)
        assert (code, out, said["result"], said["global"], said["local"]) == (69, "", "error", [], [text.strip()])
        assert said["message"].endswith(" reported alarms")


@pytest.mark.parametrize("check,missing", [("check_port_listener 1", "1"), ("check_protocol_listener mqtt", "mqtt")])
def test_a_listener_that_is_missing_is_told_with_those_that_are_there(run, check, missing):
    code, out, error = run(f"rabbitmq-diagnostics {check} --formatter json")
    said = json.loads(error)
    assert (code, out, said["result"], said["missing"]) == (69, "", "error", missing)
    assert "amqp" in {listener["protocol"] for listener in said["listeners"]}
    code, out, error = run(f"rabbitmq-diagnostics {check} -s")
    assert (code, out) == (69, "") and f" {missing} is active on node " in error


def test_a_listener_that_cannot_be_reached_is_told(run, tools):
    assert tools.run("suspend_listeners", None)["exit"] == 0
    code, out, error = run("rabbitmq-diagnostics check_port_connectivity --formatter json")
    assert tools.run("resume_listeners", None)["exit"] == 0
    said = json.loads(error)
    assert (code, out, said["result"], said["failures"][0]["protocol"]) == (69, "", "error", "amqp")


def test_attempts_to_log_in_are_a_table_of_the_protocols_that_had_some(tools):
    command, columns = "rabbitmq-diagnostics list_node_auth_attempt_stats", ["protocol", "auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded"]

    def told(words, by=""):
        return tools.run(f"{command} {words} {by}", None)["out"]

    assert tools.run("rabbitmq-diagnostics reset_node_auth_attempt_metrics", None)["exit"] == 0
    none = "Node warren@localhost reported no authentication attempt stats\n"
    assert (told("-s"), told("-q")) == (none, none) and told("").endswith(f" ...\n{none}")
    assert json.loads(told("--formatter json"))["attempts"] == []
    header, over_http = "\t".join(columns), f"--url http://guest:guest@{tools.http}"
    assert [told(words, over_http) for words in ("-s", "-q")] == ["http\t1\t0\t1\n", f"{header}\nhttp\t2\t0\t2\n"]
    banner, *rows = told("").replace("\n attempts", " attempts").splitlines()
    assert banner.startswith("Listing authentication") and rows == [header, "http\t2\t0\t2"]
    assert told("--formatter csv").splitlines() == [",".join(f'"{column}"' for column in columns), '"http","2","0","2"']
    said = json.loads(told("--formatter json"))
    assert said["result"] == "ok" and said["attempts"] == [dict(zip(columns, ["http", 2, 0, 2]))]
