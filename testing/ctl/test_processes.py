"""The server's process as scripts know it: the file with its number, which commands wait for, and names of nodes in the environment."""

import pytest
import test_ctl


@pytest.fixture
def tools(tmp_path):
    return test_ctl.Tools(test_ctl.binary_under_test(), tmp_path)


def start(tools):
    return test_ctl.start(tools, "prometheus.tcp.listener = none\nwarren.management = off\n", test_ctl.LISTEN)


def test_scripts_wait_for_the_process_in_a_file_to_serve_and_to_end(tools, monkeypatch):
    file, named = tools.folder / "empty" / "pid", "/tmp/pid"       # what Tools makes of the name
    monkeypatch.setenv("RABBITMQ_PID_FILE", str(file))
    server = start(tools)
    try:
        assert file.read_text() == f"{server.pid}\n"
        waited = tools.run(f"wait {named}", None)
        assert (waited["exit"], waited["err"]) == (0, "")
        assert f"pid is {server.pid}\n" in waited["out"] and waited["out"].endswith("are running on node 'warren@localhost'\n")
        assert tools.run(f"wait -q --pid {server.pid}", None) == {"exit": 0, "out": "", "err": ""}
        # The number of a process that runs, and a folder in which none serves.
        assert tools.run(f"wait -q -t 1 --pid {server.pid}", None, data="none")["exit"] == 75
        stopped = tools.run(f"stop {named}", None)
        assert (stopped["exit"], stopped["err"]) == (0, "")
        assert stopped["out"] == (f"Stopping and halting node warren@localhost (will monitor pid file {named}) ...\n"
                                  f"process {server.pid} (take from pid file {named}) is no longer running\n")
        assert not file.exists()
        assert not server.alive()
        gone = tools.run(f"wait -q --pid {server.pid}", None)
        assert (gone["exit"], gone["err"]) == (69, "Error:\nprocess_not_running\n")
    finally:
        server.stop()


def test_a_name_that_the_server_was_told_is_its_own(tools, monkeypatch):
    monkeypatch.setenv("RABBITMQ_NODENAME", "rabbit@old-host")
    server = start(tools)
    try:
        for line in ("list_users", "list_users -n rabbit@old-host", "rabbitmq-diagnostics -q check_running"):
            assert tools.run(line, None)["exit"] == 0, line
        assert tools.run("list_users -n rabbit@other-host", None)["exit"] == 69
    finally:
        server.stop()
    monkeypatch.delenv("RABBITMQ_NODENAME")
    server = start(tools)
    try:
        assert tools.run("list_users -n rabbit@old-host", None)["exit"] == 69, "it has that name no more"
    finally:
        server.stop()


def test_another_node_in_the_environment_is_not_this_one(tools, monkeypatch):
    server = start(tools)
    try:
        monkeypatch.setenv("RABBITMQ_NODENAME", "rabbit@nosuchhost")
        refused = tools.run("list_users", None)
        assert refused["exit"] == 69 and "on node 'rabbit@nosuchhost'" in refused["err"] and "leave RABBITMQ_NODENAME out" in refused["err"]
        assert tools.run("rabbitmq-diagnostics -q check_running", None)["exit"] == 69
        for line in ("list_users -n rabbit@localhost", f"list_users --data-dir={tools.folder}/data"):      # the command line says more
            assert tools.run(line, None)["exit"] == 0, line
        monkeypatch.setenv("RABBITMQ_NODENAME", "rabbit@localhost")
        assert tools.run("list_users", None)["exit"] == 0
    finally:
        server.stop()
