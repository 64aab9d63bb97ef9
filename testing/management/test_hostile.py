"""Bad input and bad clients: refused with `{"error", "reason"}`, no memory grows, everybody else is served."""

import base64
import concurrent.futures
import json
import socket
import time

import pytest

LOGIN = "authorization: Basic " + base64.b64encode(b"guest:guest").decode()

BODIES = [b"{bad", b"[]", b"1", b'"x"', b"null", b"\xff\xfe", b"{}", b"[" * 100_000, b'{"a":' * 50_000, b'{"arguments": [1]}', b'{"arguments": "x"}',
          b'{"durable": {"a": 1}}', b'{"count": 1e400}', b'{"value": 99999999999999999999}', b'{"tags": [1, {}]}', b'{"pattern": 5, "definition": 7}']

WRITES = [("PUT", "/api/queues/%2F/h"), ("PUT", "/api/exchanges/%2F/h"), ("POST", "/api/bindings/%2F/e/amq.topic/q/h"), ("PUT", "/api/vhosts/%2F"),
          ("PUT", "/api/users/guest"), ("PUT", "/api/permissions/%2F/guest"), ("PUT", "/api/topic-permissions/%2F/guest"), ("PUT", "/api/vhost-limits/%2F/max-queues"),
          ("PUT", "/api/user-limits/guest/max-channels"), ("PUT", "/api/parameters/shovel/%2F/x"), ("PUT", "/api/cluster-name"), ("PUT", "/api/policies/%2F/p"),
          ("POST", "/api/definitions"), ("POST", "/api/exchanges/%2F/amq.default/publish"), ("POST", "/api/queues/%2F/h/get"), ("POST", "/api/users/bulk-delete")]


@pytest.mark.parametrize("method,path", WRITES)
def test_wrong_bodies_are_refused_or_do_nothing_wrong(api, method, path):
    for body in BODIES:
        if path == "/api/users/guest" and body == b"{}":
            continue
        answer = api(method, path, body)
        assert answer.status < 500, (path, body[:50], answer)
        if answer.status >= 400:
            assert set(answer.json) == {"error", "reason"}, (path, body[:50], answer)
    assert api.get("/api/whoami")["name"] == "guest"


def test_odd_paths_and_queries_are_refused(api):
    long_name = "x" * 300
    for path in ["/api/queues/%FF%FE", "/api/queues/%2F/%FF", "/api/queues/%zz", f"/api/queues/%2F/{long_name}", "/api//queues", "/api/queues/%2F?page=-1",
                 "/api/queues/%2F?page=99999999999999999999", "/api/queues/%2F?page=1&page_size=0", "/api/queues/%2F?page=1&use_regex=true&name=(a%2B)%2B$",
                 "/api/queues/%2F?lengths_age=99999999999&lengths_incr=1", "/api/queues/%2F?columns=,,.,a..b", "/api/queues/%2F?sort=...", "/.."]:
        answer = api("GET", path)
        assert answer.status in (200, 400, 404), (path, answer)
    assert api("PUT", f"/api/queues/%2F/{long_name}", {"durable": True}).status == 400
    assert api("PUT", f"/api/vhosts/{long_name}", {}).status == 400


def test_a_huge_body_is_refused_without_being_kept(api, broker):
    before = broker.memory_kib()
    with socket.create_connection(broker.address) as client:
        client.sendall(f"POST /api/definitions HTTP/1.1\r\nhost: x\r\n{LOGIN}\r\ncontent-length: {10 << 30}\r\n\r\n".encode())
        assert b" 400 " in client.recv(1000)
    for _ in range(3):
        with socket.create_connection(broker.address) as client:
            client.settimeout(20)
            client.sendall(f"POST /api/definitions HTTP/1.1\r\nhost: x\r\n{LOGIN}\r\ntransfer-encoding: chunked\r\n\r\n".encode())
            piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
            try:
                for _ in range(64):
                    client.sendall(piece)
            except OSError:
                pass
    assert broker.memory_kib() - before < 150_000
    assert api.get("/api/whoami")["name"] == "guest"


def test_bytes_that_are_no_http_end_the_connection_only(broker, api):
    for garbage in [b"\x00" * 100, b"AMQP\x00\x00\x09\x01", b"GET / HTTP/9\r\n\r\n", b"GET /api/overview HTTP/1.1\r\n" + b"a: b\r\n" * 5000 + b"\r\n",
                    b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n\r\n"]:
        with socket.create_connection(broker.address) as client:
            client.settimeout(10)
            try:
                client.sendall(garbage)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
            except OSError:
                pass
    assert api.get("/api/whoami")["name"] == "guest"


def test_slow_clients_do_not_keep_others_out(broker, api):
    slow = []
    for _ in range(300):
        client = socket.create_connection(broker.address)
        client.sendall(b"GET /api/overview HTTP/1.1\r\nhost:")
        slow.append(client)
    for _ in range(50):                      # logged in, and the body never comes
        client = socket.create_connection(broker.address)
        client.sendall(f"PUT /api/queues/%2F/slow HTTP/1.1\r\nhost: x\r\n{LOGIN}\r\ncontent-length: 60000\r\n\r\n{{".encode())
        slow.append(client)
    begin = time.monotonic()
    assert api.get("/api/whoami")["name"] == "guest"
    assert time.monotonic() - begin < 5
    for client in slow:
        client.close()


def test_many_requests_at_once_are_all_answered(api, broker):
    before = broker.memory_kib()
    paths = ["/api/overview", "/api/queues", "/api/exchanges", "/api/nodes", "/api/nope", "/api/users"]

    def ask(nth):
        return api("GET", paths[nth % len(paths)]).status

    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        statuses = list(pool.map(ask, range(10_000)))
    assert set(statuses) == {200, 404}
    assert broker.memory_kib() - before < 150_000


def test_the_server_reports_no_failure_of_its_own(broker):
    broker.log.flush()
    with open(broker.log.name) as log:
        bad = [line for line in log if "panicked" in line or "ERROR" in line]
    assert bad == []


def test_refusals_are_json(api):
    for method, path in [("GET", "/api/nope"), ("GET", "/nope"), ("PUT", "/api/queues/nov/q"), ("GET", "/api/queues/nov/q")]:
        assert set(json.loads(api(method, path, b"{}" if method == "PUT" else None).body)) == {"error", "reason"}
