"""F195: what new passwords must be, in the words of RabbitMQ 4.3.6."""

import json

import pytest

from test_statistics import api_of

LENGTH = "management.tcp.port = 0\ncredential_validator.validation_backend = rabbit_credential_validator_min_password_length\ncredential_validator.min_length = 6\n"
PATTERN = "management.tcp.port = 0\ncredential_validator.validation_backend = rabbit_credential_validator_password_regexp\ncredential_validator.regexp = ^[a-z]{5,9}$\n"


@pytest.mark.parametrize("config, good, text", [
    (LENGTH + "default_pass = guestguest\n", "guestguest", "minimum required password length is 6"),
    (PATTERN, "guest", "provided password does not match the validator regular expression")])
def test_passwords_that_break_the_rule_are_not_set(server, tmp_path, config, good, text):
    server = server(config)
    api = api_of(server, f"guest:{good}")
    for words in [["add_user", "u", "A"], ["change_password", "guest", "A"]]:
        assert server.ctl(*words) == (69, "", f"Error:\n{text}\n")
    assert server.ctl("authenticate_user", "guest", good)[0] == 0
    for body in [{"password": "A", "tags": ""}, {"password": "", "tags": ""}]:
        answer = api("PUT", "/api/users/u", body)
        assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": "credential_validation_failed"})
    assert api("PUT", "/api/users/u", {"password_hash": "", "tags": ""}).status == 201
    assert api("PUT", "/api/users/v", {"password": good, "tags": ""}).status == 201
    document = tmp_path / "definitions.json"
    document.write_text(json.dumps({"users": [{"name": "w", "password": "A", "tags": ""}]}))
    code, _, error = server.ctl("import_definitions", str(document))
    assert code != 0 and text in error and "'w'" in error
    assert api("GET", "/api/users/w").status == 404
    server.do("add_user", "x", good)


def test_the_first_password_must_follow_the_rule_too(prepared):
    said = prepared(LENGTH).refused_start()
    assert "password of user 'guest': minimum required password length is 6; set another password (default_pass, " in said, said
    assert "warren diag" not in said, said
