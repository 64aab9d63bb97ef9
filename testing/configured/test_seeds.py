"""F134, F189: what new virtual hosts start with by the configuration: users, limits, operator policies."""

import json

CONFIG = r"""
default_users.shop.vhost_pattern = ^shop
default_users.shop.password = 'p#1'
default_users.shop.tags = monitoring,policymaker
default_users.shop.read = ^shop\.
default_users.silent.configure = ^$
default_limits.vhosts.1.pattern = ^shop
default_limits.vhosts.1.max_connections = 7
default_limits.vhosts.2.max_queues = 9
default_policies.operator.short.vhost_pattern = ^shop
default_policies.operator.short.queue_pattern = ^tmp
default_policies.operator.short.message_ttl = 1h
default_policies.operator.short.max_length_bytes = 1MB
default_policies.operator.short.apply_to = classic_queues
default_policies.operator.all.expires = 2d
"""

NOBODY = {"user": "silent", "configure": "^$", "write": ".*", "read": ".*"}
ALL = {"name": "all", "pattern": ".*", "apply-to": "all", "priority": 0, "definition": json.dumps({"expires": 172800000}, separators=(",", ":"))}
SHORT = {"name": "short", "pattern": "^tmp", "apply-to": "classic_queues", "priority": 0,
         "definition": json.dumps({"max-length-bytes": 1048576, "message-ttl": 3600000}, separators=(",", ":"))}


def permissions(server, vhost):
    return {row["user"]: row for row in server.listed("list_permissions", "-p", vhost)}


def policies(server, vhost):
    rows = server.listed("list_operator_policies", "-p", vhost)
    return {row["name"]: {key: value for key, value in row.items() if key != "vhost"} for row in rows}


def limits(server, vhost):
    return json.loads(server.do("list_vhost_limits", "-p", vhost, "--formatter", "json"))


def test_a_new_vhost_starts_with_what_its_name_matches(server):
    server = server(CONFIG)
    assert permissions(server, "/")["silent"] == NOBODY, "the first vhost is new, too"
    assert policies(server, "/") == {"all": ALL}
    assert "max-queues" in str(limits(server, "/")) and "max-connections" not in str(limits(server, "/"))
    assert "shop" not in server.do("list_users")
    server.do("add_vhost", "shop1")
    assert set(permissions(server, "shop1")) == {"shop", "silent"}
    assert permissions(server, "shop1")["shop"]["read"] == "^shop\\."
    assert policies(server, "shop1") == {"all": ALL, "short": SHORT}
    assert "max-connections" in str(limits(server, "shop1")) and "max-queues" not in str(limits(server, "shop1"))
    assert server.ctl("authenticate_user", "shop", "p#1")[0] == 0
    assert server.ctl("authenticate_user", "silent", "")[0] != 0
    assert ["monitoring", "policymaker"] in [row["tags"] for row in server.listed("list_users")]
    server.restart()
    assert policies(server, "shop1") == {"all": ALL, "short": SHORT}, "all of it is durable"


def test_what_exists_stays_as_it_is(server):
    server = server(CONFIG)
    server.do("clear_operator_policy", "all")
    server.do("add_user", "shop", "other")
    server.do("add_vhost", "/")
    assert policies(server, "/") == {}
    server.do("add_vhost", "shop2")
    assert server.ctl("authenticate_user", "shop", "other")[0] == 0
    assert "shop" in permissions(server, "shop2")


def test_a_document_has_the_last_word(server, tmp_path):
    server = server(CONFIG)
    document = tmp_path / "definitions.json"
    document.write_text(json.dumps({
        "users": [{"name": "shop", "password_hash": "", "tags": []}], "vhosts": [{"name": "shop3"}, {"name": "shop4"}],
        "parameters": [{"component": "vhost-limits", "vhost": "shop3", "name": "limits", "value": {"max-connections": 99}}]}))
    server.do("import_definitions", str(document))
    assert "99" in str(limits(server, "shop3")) and "7" in str(limits(server, "shop4"))
    assert "shop" in permissions(server, "shop4")
    assert server.ctl("authenticate_user", "shop", "p#1")[0] != 0
    assert policies(server, "shop3") == {"all": ALL, "short": SHORT}
