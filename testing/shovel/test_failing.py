"""Faults of a side: kills of every node, unreachable and refusing destinations, live changes."""

import pytest

from servers import until

COUNT = 20_000


def numbered(count):
    return [b"%d" % nth for nth in range(count)]


@pytest.mark.parametrize("victim", ("source", "destination", "both"))
def test_no_confirmed_message_is_lost_when_a_node_is_killed(warren, victim):
    """The shovel runs on the source's node, so killing that kills the shovel, too."""
    source, destination = warren("source"), warren("destination")
    source.declare("q1")
    source.publish("q1", numbered(COUNT))
    source.shovel("s", src_queue="q1", dest_queue="q2", dest_uri=destination.url, reconnect_delay=0.3, src_prefetch_count=200)
    victims = {"source": [source], "destination": [destination], "both": [source, destination]}[victim]
    for part in (0.1, 0.4):
        until("it is under way", lambda: destination.count("q2") >= COUNT * part)
        for one in victims:
            one.kill()
        for one in victims if part == 0.1 else reversed(victims):
            one.start()
    until("nothing is left", lambda: source.count("q1") == 0 and destination.count("q2") >= COUNT)
    source.until_state("s", "running")
    until("all is acked", lambda: source.api.get("/api/queues/%2F/q1")["messages"] == 0)
    bodies = destination.bodies("q2")
    assert set(bodies) == set(numbered(COUNT)), f"{COUNT - len(set(bodies))} are missing"
    print(f"{len(bodies) - COUNT} came twice")


def test_no_confirmed_message_is_lost_when_a_third_node_moves_them_and_the_source_is_killed(warren):
    source, destination, mover = warren("source"), warren("destination"), warren("mover")
    source.declare("q1")
    source.publish("q1", numbered(COUNT))
    mover.shovel("s", src_uri=source.url, src_queue="q1", dest_queue="q2", dest_uri=destination.url, reconnect_delay=0.3)
    until("it is under way", lambda: destination.count("q2") >= COUNT // 5)
    source.kill()
    source.start()
    until("it is under way again", lambda: destination.count("q2") >= COUNT // 2)
    mover.kill()
    mover.start()
    until("nothing is left", lambda: source.count("q1") == 0 and destination.count("q2") >= COUNT)
    assert set(destination.bodies("q2")) == set(numbered(COUNT))


def test_an_unreachable_destination_is_told_and_tried_again_and_the_next_uri_is_taken(warren):
    one, other = warren("one"), warren("other")
    other.kill()
    one.shovel("s", src_queue="q1", dest_queue="q2", dest_uri=other.url, reconnect_delay=0.2)
    reason = one.until_state("s", "terminated")["reason"]
    assert reason.startswith("failed to connect to destination") and "guest" not in reason, reason
    assert "guest:guest" not in one.log.read_text()
    other.start()
    one.until_state("s", "running")
    one.shovel("t", src_queue="q3", dest_queue="q4", dest_uri=["amqp://127.0.0.1:1", other.url], reconnect_delay=0.2)
    assert one.until_state("t", "running")["dest_uri"].startswith(f"amqp://127.0.0.1:{other.process.port}")


def test_refusals_are_told_in_the_brokers_words(warren):
    one = warren()
    for name, keys, text in (
        ("password", {"src_uri": f"amqp://guest:no@127.0.0.1:{one.process.port}", "src_queue": "q"}, "403 ACCESS_REFUSED"),
        ("vhost", {"src_uri": f"amqp://guest:guest@127.0.0.1:{one.process.port}/none", "src_queue": "q"}, "530 NOT_ALLOWED"),
        ("queue", {"src_queue": "none", "src_predeclared": True}, "404 NOT_FOUND - no queue 'none'"),
        ("exchange", {"src_exchange": "none"}, "404 NOT_FOUND - no exchange 'none'"),
    ):
        assert one.shovel(name, dest_queue="q2", **keys).status == 201
        assert text in one.until_state(name, "terminated")["reason"]


def test_without_a_reconnect_delay_the_first_failure_is_the_last(warren):
    one, other = warren("one"), warren("other")
    other.kill()
    one.shovel("s", src_queue="q1", dest_queue="q2", dest_uri=other.url, reconnect_delay=0)
    one.until_state("s", "terminated")
    other.start()
    assert one.api("DELETE", "/api/shovels/vhost/%2F/s/restart").status == 204
    one.until_state("s", "running")


def test_refused_messages_stay_at_the_source_and_go_when_there_is_room(warren):
    one = warren()
    one.declare("full", arguments={"x-max-length": 10, "x-overflow": "reject-publish"})
    one.declare("q1")
    one.publish("q1", numbered(30))
    one.shovel("s", src_queue="q1", dest_queue="full")
    until("it is full", lambda: one.count("full") == 10)
    seen = []
    while len(seen) < 30:
        seen += until("more comes", lambda: one.bodies("full"))
    assert sorted(seen, key=int) == numbered(30)
    assert until("nothing is left", lambda: one.api.get("/api/queues/%2F/q1")["messages"] == 0)


def test_a_blocked_destination_stops_the_shovel_until_it_takes_messages_again(warren):
    one, other = warren("one"), warren("other")
    one.declare("q1")
    one.shovel("s", src_queue="q1", dest_queue="q2", dest_uri=other.url)
    one.until_state("s", "running")
    assert other.ctl("set_disk_free_limit", "1000000GB")[0] == 0
    one.publish("q1", numbered(1000))
    until("it is blocked", lambda: one.state("s")["blocked_status"] == "blocked")
    assert other.count("q2") < 1000
    assert other.ctl("set_disk_free_limit", "1MB")[0] == 0
    until("all came", lambda: other.count("q2") == 1000)
    assert one.state("s")["blocked_status"] == "running"
    assert other.bodies("q2") == numbered(1000)


def test_a_deleted_destination_queue_loses_nothing(warren):
    one = warren()
    one.declare("q1")
    one.shovel("s", src_queue="q1", dest_queue="q2", reconnect_delay=0.2)
    one.until_state("s", "running")
    one.delete("q2")
    one.publish("q1", numbered(100))
    until("all came to the new one", lambda: one.count("q2") == 100)
    assert sorted(one.bodies("q2"), key=int) == numbered(100)


def test_a_deleted_source_queue_is_declared_again(warren):
    one = warren()
    one.shovel("s", src_queue="q1", dest_queue="q2", reconnect_delay=0.2)
    one.until_state("s", "running")
    one.delete("q1")
    assert "cancelled" in one.until_state("s", "terminated")["reason"]
    one.until_state("s", "running")


def test_shovels_start_with_the_node_change_live_and_end_with_their_parameter_or_vhost(warren):
    one = warren()
    one.shovel("s", src_queue="q1", dest_queue="q2")
    one.until_state("s", "running")
    one.process.stop()
    one.start()
    one.until_state("s", "running")
    assert one.shovel("s", src_queue="q1", dest_queue="q3").status == 204
    until("it has changed", lambda: one.state("s").get("dest_queue") == "q3")
    one.publish("q1", [b"m"])
    until("it came", lambda: one.count("q3") == 1)
    assert one.api("DELETE", "/api/parameters/shovel/%2F/s").status == 204
    until("it is gone", lambda: one.api.get("/api/shovels") == [] and one.api.get("/api/connections") == [])
    one.api("PUT", "/api/vhosts/v")
    one.shovel("v", vhost="v", src_queue="q1", dest_queue="q2")
    one.until_state("v", "running")
    one.api("DELETE", "/api/vhosts/v")
    until("it went with its vhost", lambda: one.api.get("/api/shovels") == [] and one.api.get("/api/connections") == [])
