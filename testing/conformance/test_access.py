"""B25, B55, B56, B76, B77, B82, B83, B100, B170, B191: virtual hosts, users, permissions, limits (needs --ctl)."""

import json
import re
import subprocess
import types

import pytest

import client
from client import ChannelClosed, fresh

pytestmark = pytest.mark.xdist_group("access")


def refused(broker, how, what, name, world):
    """The 403 text of a denied permission; 3.10 does not say which permission it was."""
    verb = broker.pick(f"{how} access", rabbitmq3="access")
    return f"ACCESS_REFUSED - {verb} to {what} '{name}' in vhost '{world.vhost}' refused for user '{world.user}'"


@pytest.fixture(scope="session")
def world(session_broker):
    """A virtual host with an administrator (guest) and a user who may configure c*, write w* and read r*."""
    broker = session_broker
    world = types.SimpleNamespace(vhost=fresh("v"), user=fresh("u"), password="pw é:/")
    broker.ctl("add_vhost", world.vhost)
    broker.ctl("add_user", world.user, world.password)
    broker.ctl("set_permissions", "-p", world.vhost, "guest", ".*", ".*", ".*")
    broker.ctl("set_permissions", "-p", world.vhost, world.user, "^c.*", "^w.*|amq.default", "^r.*")
    yield world
    broker.ctl("delete_user", world.user, check=False)
    broker.ctl("delete_vhost", world.vhost, check=False)


def login(broker, world, **options):
    """A connection of the limited user."""
    response = client.plain_response(world.user, world.password)
    options = {"vhost": world.vhost, "response": response} | options
    return broker.connect(**options)


@pytest.fixture
def admin(broker, world):
    """A channel of guest in the virtual host."""
    return broker.connect(vhost=world.vhost).channel()


@pytest.fixture
def limited(broker, world):
    """A channel of the limited user in the virtual host."""
    return login(broker, world).channel()


@pytest.fixture(scope="session")
def user(session_broker, world):
    """Makes further users of the virtual host, with the password "pw". The same tags and permissions give the same user,
    unless it is to be changed or deleted: ``user(own=True)``."""
    broker, made = session_broker, {}

    def make(tags="", permissions=(".*", ".*", ".*"), own=False):
        key = fresh("own") if own else (tags, permissions)
        if key not in made:
            made[key] = name = fresh("u")
            broker.ctl("add_user", name, "pw")
            broker.ctl("set_permissions", "-p", world.vhost, name, *permissions)
            if tags:
                broker.ctl("set_user_tags", name, tags)
        return made[key]

    yield make
    for name in made.values():
        broker.ctl("delete_user", name, check=False)


def command_or_skip(broker, *args):
    """Runs a control command that a young broker may not have yet."""
    if not broker.ctl_prefix:
        pytest.skip("needs --ctl")
    result = subprocess.run([*broker.ctl_prefix, *args], capture_output=True, text=True, timeout=30)
    if broker.flavor == "warren" and result.returncode == 64:
        pytest.skip(f"the control command has no {args[0]} yet")
    assert result.returncode == 0, result.stdout + result.stderr


# ------------------------------------------------------------------------------------------ virtual hosts


def test_b046_a_new_vhost_has_the_predeclared_exchanges(broker, admin):
    for kind in ("direct", "fanout", "topic", "headers"):
        admin.call("exchange.declare", exchange=f"amq.{kind}", type=kind, durable=True)


def test_vhosts_are_separate_name_spaces(broker, ch, admin):
    queue = ch.queue(fresh("same"), durable=True)
    assert admin.queue(queue, durable=True) == queue
    admin.put(queue, b"in the vhost")
    assert ch.get(queue) is None
    assert admin.get(queue).body == b"in the vhost"


def test_error_texts_name_the_vhost(world, admin):
    with admin.closes(404, f"NOT_FOUND - no queue 'nowhere' in vhost '{world.vhost}'", "queue.declare"):
        admin.ready("nowhere")


def test_b025_vhost_without_permission_is_530(broker, world):
    text = f"NOT_ALLOWED - access to vhost '/' refused for user '{world.user}'"
    connection = broker.connect(start=False)
    with connection.closes(530, text, "connection.open"):
        connection.user, connection.password = world.user, world.password
        connection.handshake_to_open("/")


def test_b025_vhost_connection_limit_is_530(broker, world):
    command_or_skip(broker, "set_vhost_limits", "-p", world.vhost, '{"max-connections": 0}')
    try:
        text = f"NOT_ALLOWED - access to vhost '{world.vhost}' refused for user 'guest': connection limit (0) is reached"
        connection = broker.connect(start=False)
        with connection.closes(530, text, "connection.open"):
            connection.handshake_to_open(world.vhost)
    finally:
        broker.ctl("clear_vhost_limits", "-p", world.vhost)


def test_b025_user_connection_limit_is_530(broker, world, user):
    name = user(own=True)
    command_or_skip(broker, "set_user_limits", name, '{"max-connections": 1}')
    broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw"))
    text = f"NOT_ALLOWED - connection refused for user '{name}': user connection limit (1) is reached"
    connection = broker.connect(start=False)
    connection.user, connection.password = name, "pw"
    with connection.closes(530, text, "connection.open"):
        connection.handshake_to_open(world.vhost)


def test_b038_user_channel_limit_is_530(broker, world, user):
    name = user(own=True)
    command_or_skip(broker, "set_user_limits", name, '{"max-channels": 1}')
    connection = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw"))
    connection.channel()
    limit = broker.pick("1", rabbitmq3="(1)")
    text = (
        f"NOT_ALLOWED - number of channels opened for user '{name}' has reached the maximum allowed user limit of {limit}"
    )
    with connection.closes(530, text):
        connection.channel()


def test_b077_vhost_queue_limit_is_406(broker, world, admin):
    admin.queue("c-before", durable=True)
    command_or_skip(broker, "set_vhost_limits", "-p", world.vhost, '{"max-queues": 0}')
    try:
        admin.call("queue.declare", queue="c-before", durable=True)
        text = (
            "PRECONDITION_FAILED - cannot declare queue 'c-new': "
            f"queue limit in vhost '{world.vhost}' (0) is reached"
        )
        with admin.closes(406, text, "queue.declare"):
            admin.queue("c-new", durable=True)
    finally:
        broker.ctl("clear_vhost_limits", "-p", world.vhost)


def test_b191_deleting_a_vhost_closes_its_connections(broker):
    vhost = fresh("v")
    broker.ctl("add_vhost", vhost)
    broker.ctl("set_permissions", "-p", vhost, "guest", ".*", ".*", ".*")
    connection = broker.connect(vhost=vhost)
    connection.channel()
    text = re.compile(f"CONNECTION_FORCED - vhost '{vhost}' is (deleted|down)")  # whichever RabbitMQ notices first
    with connection.closes(320, text):
        broker.ctl("delete_vhost", vhost)


def test_b191_deleting_a_user_closes_its_connections(broker, world, user):
    name = user(own=True)
    connection = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw"))
    connection.channel()
    with connection.closes(320, f"CONNECTION_FORCED - user '{name}' is deleted"):
        broker.ctl("delete_user", name)


def test_b028_closing_a_connection_by_command_gives_its_reason(broker, world, user):
    name = user()
    connection = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw"))
    lines = client.eventually(
        lambda: [x for x in broker.ctl("-q", "list_connections", "pid", "user").splitlines() if name in x]
    )
    with connection.closes(320, "CONNECTION_FORCED - go away please"):
        broker.ctl("close_connection", lines[0].split()[0], "go away please")


# ------------------------------------------------------------------------------------------ logins


def test_b015_password_changes_take_effect_for_new_logins(broker, world, user):
    name = user(own=True)
    old = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw"))
    broker.ctl("change_password", name, "new")
    old.channel().queue()
    broker.connect(vhost=world.vhost, response=client.plain_response(name, "new"))
    connection = broker.connect(start=False)
    text = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
    connection.user, connection.password = name, "pw"
    with connection.closes(403, text):
        connection.handshake_to_open(world.vhost)


def test_b170_cleared_password_cannot_log_in(broker, world, user):
    name = user(own=True)
    broker.ctl("clear_password", name)
    for password in ("pw", ""):
        connection = broker.connect(start=False)
        connection.user, connection.password = name, password
        with pytest.raises(client.ConnectionClosed) as closed:
            connection.handshake_to_open(world.vhost)
        assert closed.value.code == 403


def test_b170_hash_by_authenticate_command(broker, world):
    broker.ctl("authenticate_user", world.user, world.password)
    result = subprocess.run(
        [*broker.ctl_prefix, "authenticate_user", world.user, "wrong"], capture_output=True, text=True, timeout=30
    )
    assert result.returncode == 65


def test_b029_update_secret_of_a_password_user(broker, world, limited):
    limited.connection.send(0, "connection.update-secret", new_secret="whatever", reason="r")
    limited.connection.wait("connection.update-secret-ok")


def test_b029_update_secret_cancels_consumers_that_may_no_longer_read(broker, world, user):
    name = user(own=True)
    channel = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw")).channel()
    queue = channel.queue("c-" + fresh("q"))
    channel.consume(queue, tag="t")
    broker.ctl("set_permissions", "-p", world.vhost, name, ".*", ".*", "^nothing$")
    channel.put(queue, b"still read")
    assert channel.deliver().body == b"still read"
    channel.connection.send(0, "connection.update-secret", new_secret="pw", reason="r")
    if broker.flavor == "rabbitmq3":
        return  # does not look at consumers again
    assert channel.next("basic.cancel").consumer_tag == "t"
    channel.connection.wait("connection.update-secret-ok")


def test_b029_update_secret_without_access_to_the_vhost_is_530(broker, world, user):
    if broker.flavor == "rabbitmq3":
        pytest.skip("does not look at the vhost again")
    name = user(own=True)
    connection = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw"))
    broker.ctl("clear_permissions", "-p", world.vhost, name)
    text = f"NOT_ALLOWED - access to vhost '{world.vhost}' refused for user '{name}'"
    with connection.closes(530, text, "connection.update-secret"):
        connection.send(0, "connection.update-secret", new_secret="pw", reason="r")


def test_b100_impersonator_may_set_another_user_id(broker, world, user):
    name = user("impersonator")
    channel = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw")).channel()
    queue = channel.queue("c-" + fresh("q"))
    channel.publish("", queue, user_id="somebody else")
    assert client.eventually(lambda: channel.get(queue)).props["user_id"] == "somebody else"


# ------------------------------------------------------------------------------------------ queue permissions


def test_b082_declare_needs_configure(broker, world, limited):
    name = "x-" + fresh("q")
    with limited.closes(403, refused(broker, "configure", "queue", name, world), "queue.declare"):
        limited.queue(name, durable=True)


def test_b082_declare_with_configure_only_works(limited):
    limited.queue("c-" + fresh("q"), durable=True)


def test_b082_delete_needs_configure(broker, world, admin, limited):
    name = admin.queue("rw-" + fresh("q"), durable=True)
    with limited.closes(403, refused(broker, "configure", "queue", name, world), "queue.delete"):
        limited.call("queue.delete", queue=name)


def test_b082_deleting_a_missing_queue_needs_configure_too(broker, world, limited):
    with limited.closes(403, refused(broker, "configure", "queue", "missing", world), "queue.delete"):
        limited.call("queue.delete", queue="missing")


@pytest.mark.parametrize("method", ["basic.consume", "basic.get", "queue.purge"])
def test_b082_reading_needs_read(broker, world, admin, limited, method):
    name = admin.queue("c-" + fresh("q"), durable=True)
    with limited.closes(403, refused(broker, "read", "queue", name, world), method):
        limited.send(method, queue=name)


def test_b082_reading_with_read_works(admin, limited):
    name = admin.queue("r-" + fresh("q"), durable=True)
    admin.put(name, b"m")
    assert limited.get(name).body == b"m"
    limited.consume(name)
    limited.call("queue.purge", queue=name)


def test_b082_server_named_queues_need_permission_on_the_generated_name(world, limited):
    with pytest.raises(ChannelClosed) as closed:
        limited.queue("")
    assert closed.value.code == 403
    assert "queue 'amq.gen-" in closed.value.text


def test_b056_passive_declare_of_a_queue_needs_any_permission(broker, world, admin, limited):
    for prefix in ("c-", "w-", "r-"):
        name = admin.queue(prefix + fresh("q"), durable=True)
        limited.ready(name)


def test_b056_passive_declare_without_any_permission(broker, world, admin, limited):
    name = admin.queue("x-" + fresh("q"), durable=True)
    if broker.flavor == "rabbitmq3":
        limited.ready(name)  # 3.10 does not check passive declarations
        return
    with pytest.raises(ChannelClosed) as closed:
        limited.ready(name)
    assert closed.value.code == 403


def test_b076_dead_letter_arguments_need_read_on_the_queue_and_write_on_the_exchange(broker, world, user):
    name = user(permissions=("^q-", "^w-", "^q-r"))
    channel = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw")).channel()
    channel.queue("q-r" + fresh("q"), durable=True, arguments={"x-dead-letter-exchange": "w-dlx"})
    who = types.SimpleNamespace(vhost=world.vhost, user=name)
    with channel.closes(403, refused(broker, "write", "exchange", "other-dlx", who), "queue.declare"):
        channel.queue("q-r" + fresh("q"), durable=True, arguments={"x-dead-letter-exchange": "other-dlx"})
    channel = channel.connection.channel()
    queue = "q-" + fresh("q")
    with channel.closes(403, refused(broker, "read", "queue", queue, who), "queue.declare"):
        channel.queue(queue, durable=True, arguments={"x-dead-letter-exchange": "w-dlx"})


# ------------------------------------------------------------------------------------------ exchange permissions


def test_b082_exchange_declare_and_delete_need_configure(broker, world, admin, limited):
    name = "x-" + fresh("x")
    with limited.closes(403, refused(broker, "configure", "exchange", name, world), "exchange.declare"):
        limited.exchange(name=name)
    admin.exchange(name=name)
    limited = limited.connection.channel()
    with limited.closes(403, refused(broker, "configure", "exchange", name, world), "exchange.delete"):
        limited.call("exchange.delete", exchange=name)
    limited.connection.channel().exchange(name="c-" + fresh("x"))


def test_b055_alternate_exchange_needs_read_on_the_exchange_and_write_on_the_alternate(broker, world, user):
    name = user(permissions=("^x-", "^w-", "^x-r"))
    channel = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw")).channel()
    channel.exchange(name="x-r" + fresh("x"), arguments={"alternate-exchange": "w-ae"})
    who = types.SimpleNamespace(vhost=world.vhost, user=name)
    with channel.closes(403, refused(broker, "write", "exchange", "other", who), "exchange.declare"):
        channel.exchange(name="x-r" + fresh("x"), arguments={"alternate-exchange": "other"})
    channel = channel.connection.channel()
    exchange = "x-" + fresh("x")
    with channel.closes(403, refused(broker, "read", "exchange", exchange, who), "exchange.declare"):
        channel.exchange(name=exchange, arguments={"alternate-exchange": "w-ae"})


def test_b056_passive_exchange_declare_permissions(broker, world, admin, limited):
    for prefix in ("c-", "w-", "r-"):
        name = admin.exchange(name=prefix + fresh("x"))
        limited.call("exchange.declare", exchange=name, passive=True)
    name = admin.exchange(name="x-" + fresh("x"))
    if broker.flavor == "rabbitmq3":
        limited.call("exchange.declare", exchange=name, passive=True)
        return
    with pytest.raises(ChannelClosed) as closed:
        limited.call("exchange.declare", exchange=name, passive=True)
    assert closed.value.code == 403


def test_b082_publish_needs_write(broker, world, admin, limited):
    limited.publish(admin.exchange("fanout", name="w-" + fresh("x")))
    name = admin.exchange("fanout", name="r-" + fresh("x"))
    with limited.closes(403, refused(broker, "write", "exchange", name, world), "basic.publish"):
        limited.publish(name)


def test_b051_publishing_to_the_default_exchange_needs_write_on_amq_default(broker, world, user):
    name = user(permissions=("", "^nothing$", ""))
    channel = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw")).channel()
    who = types.SimpleNamespace(vhost=world.vhost, user=name)
    with channel.closes(403, refused(broker, "write", "exchange", "amq.default", who), "basic.publish"):
        channel.publish("", "k")


def test_b051_amq_default_may_be_granted_by_name(admin, limited):
    queue = admin.queue("r-" + fresh("q"), durable=True)
    limited.publish("", queue, b"m")
    assert client.eventually(lambda: limited.get(queue)).body == b"m"


def test_b082_bind_needs_write_on_the_queue_and_read_on_the_exchange(broker, world, admin, limited):
    queue, exchange = admin.queue("w-" + fresh("q"), durable=True), admin.exchange(name="r-" + fresh("x"))
    limited.bind(queue, exchange, "k")
    limited.call("queue.unbind", queue=queue, exchange=exchange, routing_key="k")
    other = admin.exchange(name="w-" + fresh("x"))
    with limited.closes(403, refused(broker, "read", "exchange", other, world), "queue.bind"):
        limited.bind(queue, other, "k")
    limited = limited.connection.channel()
    other = admin.queue("r-" + fresh("q"), durable=True)
    with limited.closes(403, refused(broker, "write", "queue", other, world), "queue.bind"):
        limited.bind(other, exchange, "k")
    limited = limited.connection.channel()
    with limited.closes(403, refused(broker, "write", "queue", other, world), "queue.unbind"):
        limited.call("queue.unbind", queue=other, exchange=exchange, routing_key="k")


def test_b082_exchange_bind_needs_write_on_the_destination_and_read_on_the_source(broker, world, admin, limited):
    source, destination = admin.exchange(name="r-" + fresh("x")), admin.exchange(name="w-" + fresh("x"))
    limited.call("exchange.bind", source=source, destination=destination)
    with limited.closes(403, refused(broker, "write", "exchange", source, world), "exchange.bind"):
        limited.call("exchange.bind", source=source, destination=source)
    limited = limited.connection.channel()
    with limited.closes(403, refused(broker, "read", "exchange", destination, world), "exchange.bind"):
        limited.call("exchange.bind", source=destination, destination=destination)


def test_b082_reading_someone_elses_queue_by_full_permissions(broker, world, user, admin):
    name = user()
    queue = admin.queue(fresh("q"), durable=True)
    admin.put(queue, b"m")
    channel = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw")).channel()
    assert channel.get(queue).body == b"m"


def test_b083_empty_pattern_denies_everything(broker, world, user):
    name = user(permissions=("", "", ""))
    channel = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw")).channel()
    with pytest.raises(ChannelClosed) as closed:
        channel.queue(fresh("q"))
    assert closed.value.code == 403


def test_b083_patterns_are_searched_not_anchored(broker, world, user):
    name = user(permissions=("mid", "", ""))
    channel = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw")).channel()
    channel.queue(fresh("q") + "-mid-" + fresh("q"))


@pytest.mark.parametrize("pattern, granted, denied", [
    ("^(?!orders).*", "billing", "orders"), (r"^(?!orders)\w*", "billing", "orders"), (r"^\w+$", "orders", "äöü"),
    (r"^\Qa.b\E", "a.b", "axb"), ("^[a-z&&b]+$", "a&b", "a-b"), (r"\<a", "<a", "a"),
])
def test_b083_patterns_are_perls_and_read_byte_by_byte(broker, world, user, pattern, granted, denied):
    name = user(permissions=(pattern, "", ""))
    connection = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw"))
    connection.channel().queue(granted)
    with pytest.raises(ChannelClosed) as closed:
        connection.channel().queue(denied)
    assert closed.value.code == 403


def test_b083_granting_later_takes_effect_for_new_connections(broker, world, user):
    name = user(own=True, permissions=("", "", ""))
    broker.ctl("set_permissions", "-p", world.vhost, name, ".*", ".*", ".*")
    broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw")).channel().queue(fresh("q"))
    broker.ctl("clear_permissions", "-p", world.vhost, name)
    connection = broker.connect(start=False)
    connection.user, connection.password = name, "pw"
    text = f"NOT_ALLOWED - access to vhost '{world.vhost}' refused for user '{name}'"
    with connection.closes(530, text, "connection.open"):
        connection.handshake_to_open(world.vhost)


# ------------------------------------------------------------------------------------------ topic permissions


@pytest.fixture(scope="session")
def topical_user(session_broker, world, user):
    """A user who may write {username}.# and {vhost}.# keys and read news.* keys on amq.topic."""
    name = user(own=True)
    patterns = ("^{username}\\.|^{vhost}\\.", "^news\\.")
    session_broker.ctl("set_topic_permissions", "-p", world.vhost, name, "amq.topic", *patterns)
    return name


@pytest.fixture
def topical(broker, world, topical_user):
    """A channel of that user."""
    channel = broker.connect(vhost=world.vhost, response=client.plain_response(topical_user, "pw")).channel()
    return types.SimpleNamespace(ch=channel, user=topical_user, vhost=world.vhost)


def topic_refused(broker, how, key, who):
    verb = broker.pick(f"{how} access", rabbitmq3="access")
    return (
        f"ACCESS_REFUSED - {verb} to topic '{key}' in exchange 'amq.topic' in vhost '{who.vhost}' "
        f"refused for user '{who.user}'"
    )


def test_b082_topic_write_permission_with_variables(broker, topical):
    topical.ch.publish("amq.topic", f"{topical.user}.anything")
    topical.ch.publish("amq.topic", f"{topical.vhost}.anything")
    with topical.ch.closes(403, topic_refused(broker, "write", "other.key", topical), "basic.publish"):
        topical.ch.publish("amq.topic", "other.key")


def test_b082_topic_write_permission_covers_cc_since_4(broker, topical):
    if broker.flavor == "rabbitmq3":
        topical.ch.publish("amq.topic", f"{topical.user}.ok", headers={"CC": ["other.key"]})
        topical.ch.nothing()
        return
    with topical.ch.closes(403, topic_refused(broker, "write", "other.key", topical), "basic.publish"):
        topical.ch.publish("amq.topic", f"{topical.user}.ok", headers={"CC": ["other.key"]})


def test_b082_topic_read_permission_on_bind(broker, topical):
    queue = topical.ch.queue(fresh("q"))
    topical.ch.bind(queue, "amq.topic", "news.sport")
    with topical.ch.closes(403, topic_refused(broker, "read", "weather.today", topical), "queue.bind"):
        topical.ch.bind(queue, "amq.topic", "weather.today")


def test_b082_topic_read_permission_on_exchange_bind_and_unbind(broker, topical):
    fanout = topical.ch.exchange("fanout", name=fresh("x"))
    ends = {"destination": fanout, "source": "amq.topic"}
    topical.ch.call("exchange.bind", **ends, routing_key="news.#")
    topical.ch.call("exchange.unbind", **ends, routing_key="news.#")
    for method in ("bind", "unbind"):
        channel = broker.connect(vhost=topical.vhost, response=client.plain_response(topical.user, "pw")).channel()
        with channel.closes(403, topic_refused(broker, "read", "#", topical), f"exchange.{method}"):
            channel.call(f"exchange.{method}", **ends, routing_key="#")


def test_b082_topic_permissions_concern_only_their_exchange(topical):
    other = topical.ch.exchange("topic", name=fresh("x"))
    topical.ch.publish(other, "other.key")
    topical.ch.bind(topical.ch.queue(fresh("q")), other, "weather.#")


def test_b082_no_topic_permission_means_all_topics(broker, world, user):
    name = user()
    channel = broker.connect(vhost=world.vhost, response=client.plain_response(name, "pw")).channel()
    channel.publish("amq.topic", "any.key")
    channel.bind(channel.queue(fresh("q")), "amq.topic", "any.#")


# ------------------------------------------------------------------------------------------ what the command shows


def test_ctl_lists_what_clients_declared(broker, world, admin):
    queue, exchange = admin.queue(fresh("q"), durable=True), admin.exchange("topic", name=fresh("x"))
    admin.bind(queue, exchange, "a.#", {"arg": 1})
    admin.put(queue, b"a", b"b")

    def row():
        out = broker.ctl("-q", "list_queues", "-p", world.vhost, "name", "messages", "durable", "--formatter", "json")
        return [r for r in json.loads(out) if r["name"] == queue and r["messages"] == 2 and r["durable"] is True]

    client.eventually(row)
    bindings = json.loads(broker.ctl("-q", "list_bindings", "-p", world.vhost, "--formatter", "json"))
    mine = [b for b in bindings if b["destination_name"] == queue]
    assert sorted((b["source_name"], b["routing_key"]) for b in mine) == [("", queue), (exchange, "a.#")]


def test_b134_ctl_shows_the_active_consumer(broker, world, admin):
    queue = admin.queue(fresh("q"), durable=True, arguments={"x-single-active-consumer": True})
    for tag in ("one", "two"):
        admin.consume(queue, tag)

    def states():
        out = broker.ctl(
            "-q", "list_consumers", "-p", world.vhost, "queue_name", "consumer_tag", "active", "activity_status",
            "--formatter", "json",
        )  # fmt: skip
        rows = [r for r in json.loads(out) if r["queue_name"] == queue]
        return {r["consumer_tag"]: (r["active"], r["activity_status"]) for r in rows}

    assert client.eventually(states) == {"one": (True, "single_active"), "two": (False, "waiting")}


def test_b119_ctl_delete_queue_cancels_consumers(broker, world, admin):
    queue = admin.queue(fresh("q"), durable=True)
    tag = admin.consume(queue)
    broker.ctl("delete_queue", "-p", world.vhost, queue)
    assert admin.next("basic.cancel").consumer_tag == tag


def test_b080_ctl_purge_queue(broker, world, admin):
    queue = admin.queue(fresh("q"), durable=True)
    admin.put(queue, b"m")
    broker.ctl("purge_queue", "-p", world.vhost, queue)
    assert admin.ready(queue) == 0


def test_f196_tags_are_kept_and_listed(broker, world, user):
    name = user(own=True)

    def tags():
        return {row["user"]: row["tags"] for row in json.loads(broker.ctl("-q", "list_users", "--formatter", "json"))}[name]

    for given in (["management"], ["administrator", "impersonator", "of-our-own"], []):
        broker.ctl("set_user_tags", name, *given)
        assert sorted(tags()) == sorted(given)
