"""The log at its level of every day: what a start, connections, changes of users and policies write, and how much of it."""

import re
import socket
import time

import pytest

import client


def lines(server):
    """The log so far, each line without its time and where it comes from."""
    return [re.sub(r"^\S+Z +(\w+) \S+: ", r"\1 ", line) for line in server.process.log_text().splitlines()]


def wait_for(server, pattern):
    end = time.monotonic() + 10
    while not (found := [line for line in lines(server) if re.search(pattern, line)]):
        assert time.monotonic() < end, f"no line like {pattern}: {server.process.log_tail(20)}"
        time.sleep(0.02)
    return found


def test_the_start_tells_version_files_folder_limits_and_listeners(server):
    server = server("disk_free_limit.absolute = 60MB")
    said = lines(server)
    for pattern in (
        r"INFO Starting Warren \d+\.\d+\.\d+ pid=\d+",
        rf"INFO config file\(s\): {re.escape(str(server.config))}",
        r"INFO log\(s\): <stderr>",
        rf"INFO data dir: {re.escape(str(server.data))}",
        r"INFO Memory high watermark set to \d+ MiB \(\d+ bytes\) of \d+ MiB \(\d+ bytes\) total",
        r"INFO Disk free limit set to 60000000 bytes \(disk free space: \d+ bytes\)",
        rf"INFO started TCP listener on 127\.0\.0\.1:{server.process.port} \(AMQP 0-9-1\)",
        r"INFO Server startup complete; it took \d+ ms",
    ):
        assert any(re.fullmatch(pattern, line) for line in said), pattern


def test_a_connection_has_a_line_when_it_comes_when_it_is_let_in_and_when_it_goes(server):
    server = server()
    connection = server.connect()
    ends = "127.0.0.1:%d -> 127.0.0.1:%d" % (connection.io.sock.getsockname()[1], server.process.port)
    assert wait_for(server, "authenticated") == [f"INFO connection {ends}: user 'guest' authenticated and granted access to vhost '/'"]
    assert f"INFO accepting AMQP connection {ends}" in lines(server)
    connection.close()
    [line] = wait_for(server, "INFO closing AMQP")
    assert re.fullmatch(rf"INFO closing AMQP connection \({ends}, vhost: '/', user: 'guest', duration: '\d+m?s'\)", line)
    server.connect().io.close()
    [line] = wait_for(server, "WARN closing AMQP")
    assert line.endswith("client unexpectedly closed TCP connection"), line


def test_what_goes_wrong_has_a_line_with_the_reason(server):
    server = server()
    with pytest.raises(client.Closed):
        server.connect(password="wrong")
    assert wait_for(server, "Error on AMQP")[0].endswith("state: starting): PLAIN login refused")
    with pytest.raises(client.Closed):
        server.connect().channel().queue("nowhere", passive=True)
    assert "no queue 'nowhere' in vhost '/'" in wait_for(server, "Channel error on connection")[0]
    with socket.create_connection(("127.0.0.1", server.process.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        stranger.recv(8)
    assert "Ensure the client is connecting to the correct port." in wait_for(server, "HTTP request detected")[0]


def test_changes_of_users_vhosts_and_policies_are_told_with_who_made_them(server):
    server = server()
    server.do("add_vhost", "shop")
    server.do("add_user", "alice", "a secret word")
    server.do("set_permissions", "-p", "shop", "alice", "^a", "", ".*")
    server.do("set_policy", "-p", "shop", "short", "^q", '{"max-length": 5}', "--apply-to", "queues")
    server.do("set_parameter", "-p", "shop", "shovel", "s", '{"src-uri": "amqp://u:hidden@h", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}')
    server.do("delete_user", "alice")
    said = lines(server)
    for line in (
        "Adding vhost 'shop' (description: '', tags: [])",
        "Created user 'alice'",
        "Successfully set permissions for user 'alice' in virtual host 'shop' to '^a', '', '.*'",
        "Successfully set policy 'short' matching queues names in virtual host 'shop' using pattern '^q'",
        "Set shovel parameter 's' in virtual host 'shop'",
        "Deleted user 'alice'",
    ):
        assert f'INFO {line} by="rmq-cli"' in said, line
    assert not any("hidden" in line or "secret" in line for line in said)


def test_a_flood_of_connections_is_some_lines_and_a_count(server):
    server = server()
    for _ in range(400):
        socket.create_connection(("127.0.0.1", server.process.port)).close()
    wait_for(server, "not all of them are written from here on")
    server.connect().close()
    accepted = [line for line in lines(server) if "accepting AMQP" in line]
    assert 100 <= len(accepted) < 200
