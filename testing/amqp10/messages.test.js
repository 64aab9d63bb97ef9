// Messages over AMQP 1.0: publishing, outcomes, credit, large messages, and the way to AMQP 0-9-1 and back.
"use strict";
const { test, before, after } = require("node:test");
const assert = require("node:assert");
const { connect, sender, send, receiver, legacy, once, fresh, pause, rhea } = require("./link.js");

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

async function queue(name, args = {}) {
  const queue = fresh(name);
  await old.channel.assertQueue(queue, { durable: true, arguments: args });
  return queue;
}

// F074
for (const type of ["classic", "quorum"]) {
  test(`a message comes through a ${type} queue as it was sent`, async () => {
    const name = await queue("through", { "x-queue-type": type });
    const out = await sender(connection, `/queues/${name}`);
    const sent = {
      body: { text: "hello", list: [1, 2] },
      durable: true,
      priority: 5,
      message_id: "m1",
      correlation_id: rhea.types.wrap_ulong(7),
      subject: "a subject",
      content_type: "text/plain",
      application_properties: { colour: "red", n: 5 },
      message_annotations: { "x-mine": 3 },
    };
    assert.strictEqual((await send(out, sent)).name, "accepted");
    const { link, next } = await receiver(connection, `/queues/${name}`);
    link.add_credit(1);
    const { message, delivery } = await next();
    for (const key of ["body", "durable", "priority", "message_id", "subject", "content_type", "application_properties"]) {
      assert.deepStrictEqual(message[key], sent[key], key);
    }
    assert.strictEqual(Number(message.correlation_id), 7);
    assert.strictEqual(message.first_acquirer, true);
    const { "x-exchange": exchange, "x-routing-key": key, "x-mine": mine } = message.message_annotations;
    assert.deepStrictEqual([exchange, key, mine], ["", name, 3]);
    delivery.accept();
    await link.close();
  });

  test(`outcomes of a delivery from a ${type} queue`, async () => {
    const dead = await queue("dead");
    const name = await queue("outcomes", {
      "x-queue-type": type,
      "x-dead-letter-exchange": "",
      "x-dead-letter-routing-key": dead,
    });
    const out = await sender(connection, `/queues/${name}`);
    await send(out, { body: "a", durable: true });
    const { link, next } = await receiver(connection, `/queues/${name}`);
    link.add_credit(3);
    const first = await next();
    first.delivery.release({ delivery_failed: false, undeliverable_here: false });
    const second = await next();
    assert.strictEqual(second.message.first_acquirer, false);
    second.delivery.modified({ delivery_failed: true });
    const third = await next();
    if (type === "quorum") assert.strictEqual(third.message.delivery_count, 1);
    third.delivery.reject({ condition: "app:bad", description: "no" });
    const grave = await receiver(connection, `/queues/${dead}`);
    grave.link.add_credit(1);
    const { message, delivery } = await grave.next();
    const [death] = message.message_annotations["x-opt-deaths"];
    assert.deepStrictEqual([death.queue, death.reason, Number(death.count)], [name, "rejected", 1]);
    assert.strictEqual(message.message_annotations["x-first-death-queue"], name);
    delivery.accept();
    await pause(50);
    assert.strictEqual((await old.channel.checkQueue(name)).messageCount, 0);
  });
}

// B183
test("what goes nowhere is released, and a settled message is not answered", async () => {
  const out = await sender(connection, "/exchanges/amq.direct/no-such-key");
  assert.strictEqual((await send(out, { body: "x" })).name, "released");
  const settled = await sender(connection, "/exchanges/amq.direct/no-such-key", { snd_settle_mode: 1 });
  settled.send({ body: "x" });
  await pause(50);
  assert.ok(settled.is_open());
});

// B182
test("names of annotations begin with x-", async () => {
  const name = await queue("annotated");
  const out = await sender(connection, `/queues/${name}`);
  assert.strictEqual((await send(out, { body: "x", message_annotations: { "x-good": 1 } })).name, "accepted");
  await assert.rejects(send(out, { body: "x", message_annotations: { bad: 1 } }), { condition: "amqp:decode-error" });
});

test("a full queue rejects and says which it is", async () => {
  const name = await queue("full", { "x-max-length": 1, "x-overflow": "reject-publish" });
  const out = await sender(connection, `/queues/${name}`);
  assert.strictEqual((await send(out, { body: "1" })).name, "accepted");
  const { name: outcome, error } = await send(out, { body: "2" });
  assert.strictEqual(outcome, "rejected");
  assert.strictEqual(error.condition, "amqp:resource-limit-exceeded");
  assert.strictEqual(error.info.queue, name);
});

test("an anonymous terminus takes the way from each message", async () => {
  const name = await queue("anonymous");
  const out = await sender(connection, {});
  assert.strictEqual((await send(out, { to: `/queues/${name}`, body: "1" })).name, "accepted");
  const missing = await send(out, { body: "2" });
  assert.strictEqual(missing.error.condition, "amqp:precondition-failed");
  assert.strictEqual(missing.error.description, "anonymous terminus requires 'to' address to be set");
  const lost = await send(out, { to: "/exchanges/none/k", body: "3" });
  assert.strictEqual(lost.error.condition, "amqp:not-found");
  assert.strictEqual((await old.channel.checkQueue(name)).messageCount, 1);
});

// B188
test("credit is a limit, and drain gives it back", async () => {
  const name = await queue("credit");
  const out = await sender(connection, `/queues/${name}`);
  for (let nth = 0; nth < 5; nth++) await send(out, { body: nth });
  const { link, inbox } = await receiver(connection, `/queues/${name}`);
  link.add_credit(2);
  await pause(100);
  assert.strictEqual(inbox.length, 2);
  link.drain_credit();
  link.add_credit(10);
  const drained = once(link, "receiver_drained");
  link.drain_credit();
  await drained;
  assert.strictEqual(inbox.length, 5);
  assert.strictEqual(link.credit, 0);
  await send(out, { body: "later" });
  await pause(50);
  assert.strictEqual(inbox.length, 5, "drained credit is gone");
  link.add_credit(1);
  await pause(100);
  assert.strictEqual(inbox.length, 6);
  inbox.forEach(({ delivery }) => delivery.accept());
});

test("what a link holds goes back when it ends", async () => {
  const name = await queue("held");
  const out = await sender(connection, `/queues/${name}`);
  await send(out, { body: "1" });
  const { link, next } = await receiver(connection, `/queues/${name}`);
  link.add_credit(1);
  await next();
  link.close();
  await once(link, "receiver_close");
  assert.strictEqual((await old.channel.checkQueue(name)).messageCount, 1);
});

test("messages of many frames go both ways, also through a narrow window", async () => {
  const narrow = await connect({ max_frame_size: 1024 });
  const session = narrow.create_session();
  session.begin({ incoming_window: 4 });
  const name = await queue("large");
  const out = await sender(narrow, `/queues/${name}`);
  const body = rhea.message.data_section(Buffer.alloc(300_000, 7));
  assert.strictEqual((await send(out, { body })).name, "accepted");
  for (const from of [narrow, session]) {
    const { link, next } = await receiver(from, `/queues/${name}`);
    link.add_credit(1);
    const { message, delivery } = await next();
    assert.ok(message.body.content.equals(body.content));
    delivery.release();
    link.close();
    await once(link, "receiver_close");
  }
  narrow.close();
});

// B184
test("clients of AMQP 0-9-1 read what was sent by AMQP 1.0", async () => {
  const name = await queue("to-old");
  const out = await sender(connection, `/queues/${name}`);
  await send(out, {
    body: rhea.message.data_section(Buffer.from("payload")),
    durable: true,
    ttl: 60_000,
    message_id: "m1",
    reply_to: "/queues/my%20queue",
    group_id: "app",
    application_properties: { colour: "red", n: 5 },
    message_annotations: { "x-mine": "yes", "x-cc": [] },
  });
  const got = await old.channel.get(name, { noAck: true });
  assert.strictEqual(got.content.toString(), "payload");
  const { properties } = got;
  assert.deepStrictEqual(
    [properties.messageId, properties.replyTo, properties.appId, properties.deliveryMode, properties.expiration],
    ["m1", "my queue", "app", 2, "60000"],
  );
  assert.deepStrictEqual(
    [properties.headers.colour, properties.headers.n, properties.headers["x-mine"]],
    ["red", 5, "yes"],
  );
  await send(out, { body: "a value" });
  const encoded = await old.channel.get(name, { noAck: true });
  assert.strictEqual(encoded.properties.type, "amqp-1.0");
});

// B184
test("clients of AMQP 1.0 read what was sent by AMQP 0-9-1", async () => {
  const name = await queue("from-old");
  old.channel.sendToQueue(name, Buffer.from("payload"), {
    contentType: "text/plain",
    headers: { colour: "red", "x-mine": 3, list: [1] },
    persistent: true,
    priority: 3,
    correlationId: "c",
    replyTo: "my queue",
    messageId: "m",
    timestamp: 1_700_000_000,
    type: "kind",
    appId: "app",
  });
  const { link, next } = await receiver(connection, `/queues/${name}`);
  link.add_credit(1);
  const { message, delivery } = await next();
  assert.strictEqual(message.body.content.toString(), "payload");
  assert.deepStrictEqual(
    [message.durable, message.priority, message.message_id, message.correlation_id, message.reply_to, message.group_id],
    [true, 3, "m", "c", "/queues/my%20queue", "app"],
  );
  assert.strictEqual(Number(message.creation_time), 1_700_000_000_000);
  assert.deepStrictEqual(message.application_properties, { colour: "red" });
  assert.strictEqual(message.message_annotations["x-mine"], 3);
  assert.strictEqual(message.message_annotations["x-basic-type"], "kind");
  delivery.accept();
});

test("messages of AMQP 1.0 are routed by their keys and headers", async () => {
  const name = await queue("headers");
  await old.channel.bindQueue(name, "amq.headers", "", { "x-match": "all", colour: "red" });
  await old.channel.bindQueue(name, "amq.topic", "a.*");
  const headers = await sender(connection, "/exchanges/amq.headers");
  assert.strictEqual((await send(headers, { application_properties: { colour: "red" }, body: "1" })).name, "accepted");
  assert.strictEqual((await send(headers, { application_properties: { colour: "blue" }, body: "2" })).name, "released");
  const topic = await sender(connection, "/exchanges/amq.topic/a.b");
  assert.strictEqual((await send(topic, { body: "3" })).name, "accepted");
  const copies = await sender(connection, "/exchanges/amq.topic/x");
  assert.strictEqual((await send(copies, { body: "4", message_annotations: { "x-cc": ["a.c"] } })).name, "accepted");
  assert.strictEqual((await old.channel.checkQueue(name)).messageCount, 3);
});
