"""Bytes on the wire: texts of errors as RabbitMQ has them, what ends a connection, and what is malformed."""

import pytest

from clients import CONNECT, CONNECT_10, Frame, frame

TOLD = [
    (frame("SEND"), "Missing destination", "\"SEND\" must include a 'destination' header\n"),
    (frame("SEND", destination="/foo/bar"), "Unknown destination",
     "'/foo/bar' is not a valid destination.\nValid destination types are: /temp-queue, /exchange, /topic, /queue, /amq/queue, "
     "/reply-queue/.\n"),
    (frame("SEND", destination="/queue/"), "Invalid destination", "'/' is not a valid queue destination\n"),
    (frame("SEND", destination="/temp-queue/a"), "Invalid destination", "'/temp-queue/a' is not a valid destination for 'SEND'\n"),
    (frame("SUBSCRIBE", destination="/temp-queue/b", id=1), "Invalid destination",
     "'/temp-queue/b' is not a valid destination for 'SUBSCRIBE'\n"),
    (frame("SEND", destination="/queue/a", message_id="x"), "Invalid header", "'message-id' is not allowed on 'SEND'.\n"),
    (frame("UNSUBSCRIBE"), "Missing destination or id", "UNSUBSCRIBE must include a 'destination' or 'id' header"),
    (frame("UNSUBSCRIBE", id="zz"), "No subscription found",
     "UNSUBSCRIBE must refer to an existing subscription.\nSubscription to \"id='zz'\" not found.\n"),
    (frame("ACK"), "Missing header", "\"ACK\" must include the \"id\" header\n"),
    (frame("ACK", id="xx"), "Invalid header", "\"ACK\" must include a valid \"id\" header\n"),
    (frame("ACK", id="T_1@@session-x@@1"), "Subscription not found", "Message with id \"T_1@@session-x@@1\" has no subscription"),
    (frame("BEGIN"), "Missing transaction", "\"BEGIN\" must include a 'transaction' header\n"),
    (frame("COMMIT", transaction="t"), "Bad transaction", "Invalid transaction identifier: \"t\"\n"),
    (frame("SEND", destination="/queue/a", transaction="t"), "Bad transaction", "Invalid transaction identifier: \"t\"\n"),
    (frame("SUBSCRIBE", destination="/topic/a", persistent="true"), "Missing Header",
     "Header 'id' is required for durable subscriptions"),
    (frame("FOO"), "Bad command", "Could not interpret command \"FOO\"\n"),
]

ENDING = [
    (frame("SEND", destination="/exchange/nope/k"), "not_found", "NOT_FOUND - no exchange 'nope' in vhost '/'"),
    (frame("SUBSCRIBE", destination="/exchange/nope/k", id=1), "not_found", "NOT_FOUND - no exchange 'nope' in vhost '/'"),
    (frame("SUBSCRIBE", destination="/amq/queue/nope", id=1), "not_found", "NOT_FOUND - no queue 'nope' in vhost '/'"),
    (frame("SUBSCRIBE", destination="/queue/twice", id=1) * 2, "Duplicated subscription identifier",
     "A subscription identified by 'T_1' already exists."),
    (frame("SUBSCRIBE", destination="/queue/acks", id="q", ack="client") + frame("ACK", id="T_q@@session-x@@77"),
     "precondition_failed", "PRECONDITION_FAILED - unknown delivery tag 77"),
]


@pytest.mark.parametrize("sent, message, detail", TOLD)
def test_mistakes_are_told_and_the_connection_goes_on(broker, sent, message, detail):
    error, receipt = broker.talk(CONNECT, sent, frame("BEGIN", transaction="t", receipt="on"), count=2)
    assert (error.command, error.headers["message"], error.body) == ("ERROR", message, detail)
    assert error.headers["version"] == "1.0,1.1,1.2"
    assert (receipt.command, receipt.headers["receipt-id"]) == ("RECEIPT", "on")


@pytest.mark.parametrize("sent, message, detail", ENDING)
def test_what_amqp_refuses_ends_the_connection(broker, sent, message, detail):
    error, end = broker.talk(CONNECT, sent, count=2)
    assert (error.command, error.headers["message"], error.body) == ("ERROR", message, detail)
    assert end is None


def test_a_queue_is_declared_once_by_each_connection(broker):
    first = frame("SUBSCRIBE", destination="/queue/args", id=1, x_message_ttl=60000, receipt=1)
    again = frame("SUBSCRIBE", destination="/queue/args", id=2, x_message_ttl=60001, receipt=2)
    assert [it.headers for it in broker.talk(CONNECT, first, again, count=2)] == [{"receipt-id": "1"}, {"receipt-id": "2"}]
    error = broker.talk(CONNECT, again)
    assert error.body == ("PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'args' in vhost '/': received '60001' "
                          "but current is '60000'")


@pytest.mark.parametrize("sent, message, detail", [
    (CONNECT.replace("passcode:guest", "passcode:x"), "Bad CONNECT", "Access refused for user 'guest'"),
    (CONNECT.replace("host:/", "host:nope"), "Bad CONNECT", "Virtual host 'nope' access denied"),
    (CONNECT.replace("1.0,1.1,1.2", "3.0"), "Version mismatch", "Supported versions are 1.0,1.1,1.2\n"),
    (frame("SEND", destination="/queue/a"), "Illegal command", "You must log in using CONNECT first"),
])
def test_who_is_not_let_in_is_told(broker, sent, message, detail):
    made = broker.socket(sent)
    error = made.read()
    assert (error.command, error.headers["message"], error.body) == ("ERROR", message, detail)
    assert made.read() is None


@pytest.mark.parametrize("bytes_", [
    "SEND\nabc\n\n\0", "SEND\nabc:\\t\n\n\0", "SEND\ncontent-length:x\n\n\0", "SEND\ncontent-length:1\n\nabc\0",
    "SEND\ncontent-length:9999999999999\n\n", "SEND\n" + "a:b\n" * 1001 + "\n\0", "SE\0", "SEND\n" + "a:" + "b" * 300_000,
])
def test_malformed_frames_end_the_connection(broker, bytes_):
    error, end = broker.talk(CONNECT, bytes_, count=2)
    assert (error.command, error.headers["message"], end) == ("ERROR", "Malformed frame", None)


def test_frames_before_connect_are_small(broker):
    made = broker.socket("CONNECT\n" + "a:" + "b" * 70_000)
    assert made.read().headers["message"] == "Malformed frame"
    assert made.read() is None


def test_versions_are_negotiated(broker):
    for asked, version in [("1.0,1.1,1.2", "1.2"), ("1.1", "1.1"), ("1.1,2.0", "1.1")]:
        connected = broker.socket(CONNECT.replace("1.0,1.1,1.2", asked)).read()
        assert connected.headers["version"] == version
    connected = broker.socket(CONNECT_10).read()
    assert (connected.headers["version"], connected.headers["heart-beat"]) == ("1.0", "0,0")
    connected = broker.socket(CONNECT.replace("host:/", "host:/\nheart-beat:3000,2000")).read()
    assert connected.headers["heart-beat"] == "2000,3000"


def test_version_1_0_knows_no_escapes(broker):
    message = broker.talk(CONNECT_10, frame("SUBSCRIBE", destination="/queue/raw"),
                          frame("SEND", "x", destination="/queue/raw", foo="a\\b"))
    assert message.headers["foo"] == "a\\b"
    assert message.headers["message-id"].startswith("Q_/queue/raw@@session-")
    assert "subscription" not in message.headers


def test_disconnect_is_answered_when_all_is_safe(broker):
    made = broker.socket(CONNECT, frame("SEND", "x", destination="/queue/leaving", persistent="true", receipt="sent"),
                         frame("DISCONNECT", receipt="bye"))
    answers = [made.read() for _ in range(4)]
    assert [it and it.headers.get("receipt-id") for it in answers[1:]] == ["sent", "bye", None]
    assert answers[3] is None


def test_bodies_may_have_zeroes(broker):
    message = broker.talk(CONNECT, frame("SUBSCRIBE", destination="/queue/zeroes", id=1),
                          frame("SEND", "a\0b", destination="/queue/zeroes", content_length=3))
    assert (message.body, message.headers["content-length"]) == ("a\0b", "3")


def test_frames_that_come_together_wait_for_each_other(broker):
    made = broker.socket(CONNECT)
    assert made.read().command == "CONNECTED"
    made.write(frame("SEND", "x", destination="/queue/together", reply_to="/temp-queue/t", receipt="sent"),
               frame("SUBSCRIBE", destination="/queue/together", id=1), frame("SEND", "y", destination="/queue/together"))
    answers = [made.read() for _ in range(3)]
    assert sorted(it.command for it in answers) == ["MESSAGE", "MESSAGE", "RECEIPT"]
    assert [it.body for it in answers if it.command == "MESSAGE"] == ["x", "y"]


def test_frames_come_in_pieces(broker):
    made = broker.socket(CONNECT)
    assert made.read().command == "CONNECTED"
    for byte in frame("SUBSCRIBE", destination="/queue/pieces", id=1) + "\r\n\n" + frame("SEND", "hello", destination="/queue/pieces"):
        made.write(byte)
    message = made.read()
    assert isinstance(message, Frame) and message.body == "hello"


def test_a_frame_without_connect_logs_in_where_that_is_wanted(configured):
    broker = configured("stomp.implicit_connect = true\nstomp.default_nack_requeue = false\n")
    made = broker.socket(frame("SUBSCRIBE", destination="/queue/implicit", receipt="r"))
    assert made.read().headers == {"receipt-id": "r"}


def test_nobody_comes_in_without_a_login_where_there_is_no_default(configured):
    broker = configured("stomp.default_user = ''\nstomp.hide_server_info = true\n")
    assert broker.socket("CONNECT\naccept-version:1.2\nhost:/\n\n\0").read().headers["message"] == "Bad CONNECT"
    assert "server" not in broker.socket(CONNECT).read().headers
