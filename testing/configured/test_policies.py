"""B143, F130, F133: policies and what queues hold by them outlive a kill, and come with definitions at the start."""

import json

import client


def shown(server, vhost="/"):
    columns = ["name", "policy", "operator_policy", "effective_policy_definition"]
    rows = server.listed("list_queues", "-p", vhost, *columns)
    return {row["name"]: (row["policy"], row["operator_policy"], row["effective_policy_definition"]) for row in rows}


def test_b143_policies_survive_a_kill(server):
    server = server()
    channel = server.connect().channel()
    channel.queue("orders", durable=True)
    channel.put("orders", *[b"m"] * 9, delivery_mode=2)
    server.do("set_policy", "--priority", "3", "--apply-to", "queues", "limits", "^ord", '{"max-length":7,"overflow":"reject-publish"}')
    server.do("set_policy", "dropped", "^ord", '{"max-length":1}')
    server.do("set_operator_policy", "floor", "", '{"max-length":5,"overflow":"drop-head"}')
    server.do("clear_policy", "dropped")
    wanted = {"orders": ("limits", "floor", {"max-length": 5, "overflow": "drop-head"})}
    assert shown(server) == wanted
    assert channel.ready("orders") == 5
    before = server.do("export_definitions", "-")
    server.restart()
    assert server.do("export_definitions", "-") == before
    assert shown(server) == wanted
    channel = server.connect().channel()
    assert channel.ready("orders") == 5
    channel.put("orders", b"one more", delivery_mode=2)
    client.eventually(lambda: channel.ready("orders") == 5)
    server.do("clear_operator_policy", "floor")
    server.restart()
    assert shown(server) == {"orders": ("limits", "", {"max-length": 7, "overflow": "reject-publish"})}


def test_f130_policies_come_with_the_definitions_of_a_start(prepared, tmp_path):
    policy = {"vhost": "/", "name": "p", "pattern": "^q", "apply-to": "queues", "definition": {"max-length": 2}, "priority": 0}
    value = {"pattern": "^q", "definition": {"max-length": 1}, "priority": 0, "apply-to": "all"}
    queue = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    document = {
        "vhosts": [{"name": "/"}], "queues": [queue], "policies": [policy],
        "parameters": [{"vhost": "/", "component": "operator_policy", "name": "o", "value": value}],
    }
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(document))
    server = prepared(f"load_definitions = {file}\n").start()
    assert shown(server) == {"q": ("p", "o", {"max-length": 1})}
    policy["definition"] = {"ha-mode": "all"}
    file.write_text(json.dumps(document))
    server.process.stop()
    assert "1 policy" in server.refused_start()
