// Connections, sessions and links over AMQP 1.0: refusals, dynamic nodes, replies, and the management node.
"use strict";
const { test, before, after } = require("node:test");
const assert = require("node:assert");
const { connect, sender, send, receiver, legacy, once, fresh, pause, refusal, refused, rhea } = require("./link.js");

let connection;
let old;
before(async () => {
  connection = await connect();
  old = await legacy();
});
after(async () => {
  connection.close();
  await old.close();
});

/** The error with which the broker ends a connection. */
async function ended(connection) {
  for (let tries = 0; tries < 50 && !connection.error; tries++) await pause(20);
  throw new Error(String(connection.error && connection.error.description));
}

test("a wrong password and an unknown vhost are refused", async () => {
  await assert.rejects(connect({ password: "wrong" }), /not connected/);
  await assert.rejects(connect({ hostname: "vhost:none" }).then(ended), /vhost none not found|not connected: disconnected/);
  const chosen = await connect({ hostname: "vhost:/" });
  assert.ok(chosen.is_open());
  chosen.close();
});

// B036
test("the open frame tells the node, the largest frame, and how long a client may be silent", async () => {
  const { container_id: id, max_frame_size: frame, channel_max: channels, idle_time_out: idle } = connection.remote.open;
  assert.match(id, /^[^@]+@/);
  assert.deepStrictEqual([frame, channels, idle], [131072, 63, 30000]);
  await assert.rejects(connect({ idle_time_out: 999 }).then(ended), /idle-time-out|not connected/);
});

test("a client may begin with ANONYMOUS", async () => {
  const anonymous = await connect({ username: "anonymous", password: undefined });
  assert.ok(anonymous.is_open());
  anonymous.close();
});

// B186
test("links are refused in RabbitMQ's words", async () => {
  await refused(sender(connection, "/queues/none"), "amqp:not-found", "no queue 'none' in vhost '/'");
  await refused(sender(connection, "/exchanges/none/k"), "amqp:not-found", "no exchange 'none' in vhost '/'");
  await refused(receiver(connection, "/queues/none"), "amqp:not-found", "no queue 'none' in vhost '/'");
  await refused(
    sender(connection, "/queue/old"),
    "amqp:invalid-field",
    'Attach refused: {amqp_address_v1_not_permitted,{utf8,<<"/queue/old">>}}',
  );
  await refused(
    receiver(connection, "/queues/a/b"),
    "amqp:invalid-field",
    'Attach refused: {bad_address,{utf8,<<"/queues/a/b">>}}',
  );
  await refused(receiver(connection, {}), "amqp:invalid-field", "Attach refused: {bad_address,undefined}");
  await refused(
    sender(connection, "/exchanges/"),
    "amqp:invalid-field",
    'Attach refused: {bad_address_string,<<"/exchanges/">>}',
  );
});

test("links of a queue end with it", async () => {
  const name = fresh("ends");
  await old.channel.assertQueue(name);
  const { link } = await receiver(connection, `/queues/${name}`);
  const ended = once(link, "receiver_error");
  await old.channel.deleteQueue(name);
  await ended;
  assert.strictEqual(refusal(link).condition, "amqp:resource-deleted");
});

test("an exclusive queue of another connection is locked", async () => {
  const name = fresh("exclusive");
  await old.channel.assertQueue(name, { exclusive: true });
  await refused(
    receiver(connection, `/queues/${name}`),
    "amqp:resource-locked",
    `cannot obtain exclusive access to locked queue '${name}' in vhost '/'`,
  );
});

test("a dynamic source is a queue that goes with its link", async () => {
  const { link, next } = await receiver(connection, { dynamic: true, capabilities: ["temporary-queue"] });
  const { address } = link.source;
  const out = await sender(connection, address);
  assert.strictEqual((await send(out, { body: "1" })).name, "accepted");
  link.add_credit(1);
  const { message, delivery } = await next();
  assert.strictEqual(message.body, "1");
  delivery.accept();
  link.close();
  await once(link, "receiver_close");
  await pause(50);
  await assert.rejects(sender(connection, address), /no queue/);
});

test("replies come straight to their requester", async () => {
  const { link, next } = await receiver(
    connection,
    { dynamic: true, capabilities: ["rabbitmq:volatile-queue"], expiry_policy: "link-detach" },
    { snd_settle_mode: 1 },
  );
  link.add_credit(1);
  const out = await sender(connection, {});
  assert.strictEqual((await send(out, { to: link.source.address, body: "reply" })).name, "accepted");
  assert.strictEqual((await next()).message.body, "reply");
});

/** Requests to the management node. */
async function management() {
  const pair = { name: fresh("pair"), properties: { paired: true }, snd_settle_mode: 1 };
  const node = { address: "/management", durable: 0, expiry_policy: "link-detach" };
  const answers = await receiver(connection, node, { ...pair, target: { address: "$me" } });
  answers.link.add_credit(50);
  // Rhea knows links by their names, and both halves have the same one.
  answers.link.session.links[`${pair.name} answers`] = answers.link;
  const requests = await sender(connection, node, { ...pair, source: { address: "$me" } });
  let id = 0;
  return async (subject, to, body = null) => {
    requests.send({ message_id: ++id, subject, to, reply_to: "$me", body });
    const { message } = await answers.next();
    assert.strictEqual(Number(message.correlation_id), id);
    return { status: message.subject, body: message.body };
  };
}

test("queues, exchanges and bindings are managed over the management node", async () => {
  const ask = await management();
  const [queue, exchange] = [fresh("managed"), fresh("x")];
  const declared = await ask("PUT", `/queues/${queue}`, { durable: true, arguments: { "x-queue-type": "quorum" } });
  assert.strictEqual(declared.status, "201");
  assert.deepStrictEqual([declared.body.name, declared.body.type, Boolean(declared.body.durable)], [queue, "quorum", true]);
  assert.strictEqual((await ask("PUT", `/queues/${queue}`, { arguments: { "x-queue-type": "quorum" } })).status, "200");
  const conflict = await ask("PUT", `/queues/${queue}`, { auto_delete: true, arguments: { "x-queue-type": "quorum" } });
  assert.deepStrictEqual(conflict, {
    status: "409",
    body: `inequivalent arg 'auto_delete' for queue '${queue}' in vhost '/': received 'true' but current is 'false'`,
  });
  assert.strictEqual((await ask("PUT", `/exchanges/${exchange}`, { type: "topic" })).status, "204");
  const binding = { source: exchange, destination_queue: queue, binding_key: "a.*", arguments: {} };
  assert.strictEqual((await ask("POST", "/bindings", binding)).status, "204");
  const listed = await ask("GET", `/bindings?src=${exchange}&dstq=${queue}&key=a.%2A`);
  assert.strictEqual(listed.body.length, 1);
  const out = await sender(connection, `/exchanges/${exchange}/a.b`);
  await send(out, { body: "1" });
  const found = await ask("GET", `/queues/${queue}`);
  assert.deepStrictEqual([found.status, Number(found.body.message_count)], ["200", 1]);
  const purged = await ask("DELETE", `/queues/${queue}/messages`);
  assert.deepStrictEqual([purged.status, Number(purged.body.message_count)], ["200", 1]);
  assert.strictEqual((await ask("DELETE", listed.body[0].location)).status, "204");
  assert.strictEqual((await send(out, { body: "2" })).name, "released");
  assert.strictEqual((await ask("DELETE", `/exchanges/${exchange}`)).status, "204");
  assert.strictEqual((await ask("DELETE", `/queues/${queue}`)).status, "200");
  assert.deepStrictEqual(await ask("GET", `/queues/${queue}`), {
    status: "404",
    body: `queue '${queue}' in vhost '/' not found`,
  });
  assert.strictEqual((await ask("PUT", "/queues/amq.mine", {})).status, "403");
  assert.strictEqual((await ask("PUT", "/queues/", {})).status, "400");
});

test("a silent client hears from the broker", async () => {
  const quiet = await connect({ idle_time_out: 1000 });
  await pause(2500);
  assert.ok(quiet.is_open());
  quiet.close();
});

test("links of a quorum queue are told which of them is the active consumer", async () => {
  const name = fresh("active");
  const queue = { durable: true, arguments: { "x-queue-type": "quorum", "x-single-active-consumer": true } };
  await old.channel.assertQueue(name, queue);
  // The frames that links get, one after the other. The first flow may come with the attach.
  const told = new Map();
  const classic = fresh("classic");
  await old.channel.assertQueue(classic);
  const prototype = Object.getPrototypeOf((await receiver(connection, `/queues/${classic}`)).link);
  const before = prototype.on_flow;
  prototype.on_flow = function (frame) {
    const { properties } = frame.performative;
    if (properties) told.set(this, [...(told.get(this) || []), Number(properties["rabbitmq:active"]) === 1]);
    before.call(this, frame);
  };
  const one = await receiver(connection, `/queues/${name}`);
  const other = await receiver(connection, `/queues/${name}`);
  const until = async (link, count) => {
    for (let tries = 0; tries < 50 && (told.get(link.link) || []).length < count; tries++) await pause(20);
    return told.get(link.link);
  };
  one.link.add_credit(5);
  other.link.add_credit(5);
  assert.deepStrictEqual([await until(one, 1), await until(other, 1)], [[true], [false]]);
  one.link.close();
  assert.deepStrictEqual(await until(other, 2), [false, true]);
  other.link.close();
  prototype.on_flow = before;
  await old.channel.deleteQueue(name);
  await old.channel.deleteQueue(classic);
});

test("a quorum queue keeps annotations of the outcome modified, and the time of the next delivery", async () => {
  const [name, dead] = [fresh("annotated"), fresh("dead")];
  await old.channel.assertQueue(dead, { durable: true });
  const args = { "x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead };
  await old.channel.assertQueue(name, { durable: true, arguments: args });
  const out = await sender(connection, `/queues/${name}`);
  assert.strictEqual((await send(out, { body: "m" })).name, "accepted");
  const link = await receiver(connection, `/queues/${name}`);
  const modify = (delivery, undeliverable, annotations) =>
    delivery.modified({ delivery_failed: true, undeliverable_here: undeliverable, message_annotations: annotations });
  link.link.add_credit(3);
  modify((await link.next()).delivery, false, { "x-opt-one": "1", "x-opt-two": 5 });
  const second = await link.next();
  assert.deepStrictEqual([second.message.message_annotations["x-opt-one"], second.message.message_annotations["x-opt-two"]], ["1", 5]);
  assert.strictEqual(second.message.delivery_count, 1);
  const due = Date.now() + 400;
  modify(second.delivery, false, { "x-opt-one": "2", "x-opt-delivery-time": rhea.types.wrap_timestamp(due) });
  const third = await link.next();
  assert.ok(Date.now() >= due - 50, "it waited");
  assert.strictEqual(third.message.message_annotations["x-opt-one"], "2");
  modify(third.delivery, true, { "x-opt-why": "no" });
  const letters = await receiver(connection, `/queues/${dead}`);
  letters.link.add_credit(1);
  const letter = await letters.next();
  assert.deepStrictEqual([letter.message.message_annotations["x-opt-why"], letter.message.message_annotations["x-opt-one"]], ["no", "2"]);
  letter.delivery.accept();
  for (const one of [out, link.link, letters.link]) one.close();
  await old.channel.deleteQueue(name);
  await old.channel.deleteQueue(dead);
});

test("a link that sends to a queue ends when the queue is gone", async () => {
  const name = fresh("gone");
  await old.channel.assertQueue(name);
  const link = await sender(connection, `/queues/${name}`);
  assert.strictEqual((await send(link, { body: "m" })).name, "accepted");
  await old.channel.deleteQueue(name);
  const ended = once(link, "sender_error", "sender_close");
  link.send({ body: "m" });
  await ended;
  assert.strictEqual(link.error.condition, "amqp:resource-deleted");
});

// B135
test("a quorum queue takes back what a link holds for too long, and goes on when the client settles it", async () => {
  const name = fresh("timeout");
  await old.channel.assertQueue(name, { arguments: { "x-queue-type": "quorum" } });
  const properties = { "rabbitmq:consumer-timeout": rhea.types.wrap_uint(500) };
  const slow = await receiver(connection, `/queues/${name}`, { properties });
  slow.link.add_credit(10);
  const target = await sender(connection, `/queues/${name}`);
  await send(target, { body: "held" });
  const { delivery } = await slow.next();
  for (let tries = 0; tries < 200 && !delivery.remote_state; tries++) await pause(25);
  assert.strictEqual(delivery.remote_state.constructor.descriptor.numeric, 0x26);
  assert.ok(!delivery.remote_settled);
  // The link gets nothing until it has settled what was taken back.
  await send(target, { body: "next" });
  const other = await receiver(connection, `/queues/${name}`);
  other.link.add_credit(2);
  for (const body of ["held", "next"]) {
    const got = await other.next();
    assert.strictEqual(got.message.body, body);
    got.delivery.accept();
  }
  assert.strictEqual(slow.inbox.length, 0);
  delivery.release();
  other.link.close();
  await once(other.link, "receiver_close");
  slow.link.add_credit(1);
  await send(target, { body: "last" });
  const last = await slow.next();
  assert.strictEqual(last.message.body, "last");
  last.delivery.accept();
  await old.channel.deleteQueue(name);
});
