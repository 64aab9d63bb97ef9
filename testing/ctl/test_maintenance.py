"""Listeners that are suspended, maintenance mode, and the stream of events: what the commands do, besides what they say."""

import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import client
import pytest
import test_ctl


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    folder = tmp_path_factory.mktemp("maintenance")
    tools = test_ctl.Tools(test_ctl.binary_under_test(), folder)
    server = test_ctl.start(tools, "prometheus.tcp.listener = none\n")
    tools.http = server.http
    try:
        yield tools
    finally:
        server.stop()


def done(tools, line):
    answer = tools.run(line, None)
    assert (answer["exit"], answer["err"]) == (0, ""), f"{line}: {answer}"
    return answer["out"]


def connect(tools):
    return client.pika.BlockingConnection(client.pika.ConnectionParameters("127.0.0.1", tools.port))


def accepts(tools):
    try:
        socket.create_connection(("127.0.0.1", tools.port), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def get(tools, path):
    """Status and JSON of the HTTP API."""
    manager = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    manager.add_password(None, f"http://{tools.http}", "guest", "guest")
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(manager))
    try:
        with opener.open(f"http://{tools.http}{path}") as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def test_suspended_listeners_let_nobody_in_and_leave_connections_alone(tools):
    with connect(tools) as connection:
        done(tools, "suspend_listeners")
        assert not accepts(tools)
        assert connection.channel().queue_declare("", exclusive=True).method.queue
        assert tools.run("rabbitmq-diagnostics check_port_connectivity", None)["exit"] == 69
        assert get(tools, "/api/health/checks/is-in-service")[0] == 200          # as with RabbitMQ: it is no maintenance
        done(tools, "resume_listeners")
        assert accepts(tools)
        done(tools, "rabbitmq-diagnostics check_port_connectivity")
    connect(tools).close()


def test_a_node_in_maintenance_closes_connections_and_says_so_until_it_is_revived(tools):
    connection = connect(tools)
    done(tools, "rabbitmq-upgrade drain")
    with pytest.raises(client.pika.exceptions.ConnectionClosedByBroker, match=r"320.*CONNECTION_FORCED - Node was put into maintenance mode"):
        connection.process_data_events(10)
    assert not accepts(tools)
    assert get(tools, "/api/health/checks/is-in-service") == (503, {"status": "failed", "reason": "this rabbit node is not currently available to serve"})
    assert get(tools, "/api/health/checks/ready-to-serve-clients") == (503, {"status": "failed", "reason": "the rabbit node is not currently available to serve"})
    assert get(tools, "/api/nodes")[1][0]["being_drained"] is True
    assert "status: marked for maintenance" in done(tools, "cluster_status")
    assert "Is under maintenance?: true" in done(tools, "status")
    done(tools, "resume_listeners")                                              # clients may come, but it is still maintenance
    assert accepts(tools) and get(tools, "/api/health/checks/is-in-service")[0] == 503
    done(tools, "rabbitmq-upgrade revive")
    connect(tools).close()
    assert get(tools, "/api/health/checks/ready-to-serve-clients") == (200, {"status": "ok"})
    assert "status: not under maintenance" in done(tools, "cluster_status")


def test_a_port_that_was_taken_meanwhile_is_said(tools):
    done(tools, "suspend_listeners")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", tools.port))
        other.listen()
        answer = tools.run("resume_listeners", None)
        assert answer["exit"] == 69 and "a listener cannot be changed" in answer["err"] and "in use" in answer["err"]
    done(tools, "resume_listeners")
    assert accepts(tools)


def events(tools, *options):
    command = [str(tools.tools / "rabbitmq-diagnostics"), "--data-dir", str(tools.folder / "data"), "consume_event_stream", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_events_are_lines_of_json_as_they_come(tools):
    following = events(tools)
    first = None
    for _ in range(50):                                                          # until the first question is there
        done(tools, "add_user teller secret")
        done(tools, "delete_user teller")
        if following.poll() is None and select_line(following, 0.2):
            first = json.loads(following.stdout.readline())
            break
    assert first and first["event"].startswith("user.") and first["name"] == "teller" and first["user_who_performed_action"] == "rmq-cli"
    assert first["timestamp_in_ms"] > 1_700_000_000_000
    with connect(tools) as connection:
        connection.channel().queue_declare("", exclusive=True, arguments={"x-max-length": 5})
    seen = []
    while not any(one["event"] == "connection.closed" for one in seen):
        seen.append(json.loads(following.stdout.readline()))
    created = next(one for one in seen if one["event"] == "queue.created")
    assert "{<<\"x-max-length\">>,signedint,5}" in created["arguments"] and created["user_who_performed_action"] == "guest"
    following.terminate()
    following.wait(10)


def test_a_reader_that_was_away_for_a_while_misses_no_event(tools):
    following = events(tools, "--pattern", "^user.(created|deleted)$")
    for _ in range(50):                                                          # until the first question is there
        done(tools, "add_user before secret")
        done(tools, "delete_user before")
        if select_line(following, 0.2):
            break
    following.send_signal(signal.SIGSTOP)
    time.sleep(11)                                                               # more than a pause between two questions ever is
    done(tools, "add_user meanwhile secret")
    done(tools, "delete_user meanwhile")
    following.send_signal(signal.SIGCONT)
    time.sleep(2)
    following.terminate()
    told = [json.loads(line) for line in following.communicate(timeout=10)[0].splitlines()]
    assert [one["event"] for one in told if one.get("name") == "meanwhile"] == ["user.created", "user.deleted"]


def select_line(process, seconds):
    import select
    return bool(select.select([process.stdout], [], [], seconds)[0])


def test_a_pattern_picks_events_and_a_duration_ends_the_stream(tools):
    following = events(tools, "--pattern", r"^queue\.", "--duration", "4")
    for _ in range(10):
        with connect(tools) as connection:
            connection.channel().queue_declare("", exclusive=True)
        if select_line(following, 0.3):
            break
    out, err = following.communicate(timeout=30)
    lines = [json.loads(line)["event"] for line in out.splitlines()]
    assert (following.returncode, err) == (0, "") and lines and set(lines) <= {"queue.created", "queue.deleted"}
    assert tools.run("rabbitmq-diagnostics consume_event_stream --pattern '('", None)["exit"] == 64
