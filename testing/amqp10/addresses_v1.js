// Addresses of version 1 over AMQP 1.0. The broker must permit them: deprecated_features.permit.amqp_address_v1 = true.
"use strict";
const { test, before, after } = require("node:test");
const assert = require("node:assert");
const { connect, sender, send, receiver, legacy, once, fresh, refusal, refused } = require("./link.js");

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

/** Sends one message and takes it from a receiver. */
async function passes(target, { next, link }, message) {
  link.add_credit(1);
  assert.strictEqual((await send(target, message)).name, "accepted");
  const { message: got, delivery } = await next();
  delivery.accept();
  return got;
}

test("a queue that a target names is declared, and a source finds it", async () => {
  const name = fresh("v1/queue");
  const escaped = name.replaceAll("/", "%2F");
  const target = await sender(connection, { address: `/queue/${escaped}`, durable: 1 });
  assert.strictEqual(target.remote.attach.target.address, `/queue/${escaped}`);
  await old.channel.assertQueue(name, { durable: true, arguments: { "x-queue-type": "classic" } });
  for (const address of [`/queue/${escaped}`, `/amq/queue/${escaped}`, escaped, `/queues/${encodeURIComponent(name)}`]) {
    const source = await receiver(connection, address);
    assert.strictEqual(source.link.remote.attach.source.address, address);
    assert.strictEqual((await passes(target, source, { body: "text" })).body, "text");
    source.link.close();
    await once(source.link, "receiver_close");
  }
  // A queue of any type and any arguments does.
  const other = fresh("v1-other");
  await old.channel.assertQueue(other, { arguments: { "x-max-length": 5 } });
  await sender(connection, { address: other, durable: 0 });
  await old.channel.deleteQueue(name);
  await old.channel.deleteQueue(other);
});

test("a queue lasts as its terminus does, and not only as long as its link", async () => {
  for (const [durable, made] of [
    [0, false],
    [1, true],
    [2, true],
  ]) {
    const name = fresh("v1-durable");
    const { link } = await receiver(connection, { address: `/queue/${name}`, durable });
    link.close();
    await once(link, "receiver_close");
    await old.channel.assertQueue(name, { durable: made });
    await old.channel.deleteQueue(name);
  }
});

test("a target that names an exchange only, or nothing, takes the subject as key", async () => {
  const [exchange, queue] = [fresh("v1-exchange"), fresh("v1-subject")];
  await old.channel.assertExchange(exchange, "topic");
  await old.channel.assertQueue(queue);
  await old.channel.bindQueue(queue, exchange, "wanted.*");
  for (const [address, subject] of [
    [`/exchange/${exchange}`, "wanted.1"],
    ["/queue", queue],
  ]) {
    const target = await sender(connection, address);
    assert.strictEqual((await send(target, { subject, body: "a" })).name, "accepted", address);
    assert.strictEqual((await send(target, { subject: "not.this.one", body: "b" })).name, "released", address);
    assert.strictEqual((await send(target, { body: "c" })).name, "released", address);
  }
  const target = await sender(connection, `/exchange/${exchange}/wanted.2`);
  assert.strictEqual((await send(target, { subject: "no", body: "d" })).name, "accepted");
  const got = [];
  for (let count = 0; count < 3; count++) got.push((await old.channel.get(queue, { noAck: true })).fields.routingKey);
  assert.deepStrictEqual(got, ["wanted.1", queue, "wanted.2"]);
  await old.channel.deleteQueue(queue);
  await old.channel.deleteExchange(exchange);
});

test("a source that names an exchange gets a queue that is bound to it", async () => {
  const exchange = fresh("v1-source");
  await old.channel.assertExchange(exchange, "direct");
  const source = await receiver(connection, `/exchange/${exchange}/k`);
  const target = await sender(connection, `/exchange/${exchange}/k`);
  assert.strictEqual((await passes(target, source, { body: "text" })).body, "text");
  const topics = await receiver(connection, "/topic/v1.*");
  assert.strictEqual((await passes(await sender(connection, "/topic/v1.a"), topics, { body: 1 })).body, 1);
  await old.channel.deleteExchange(exchange);
});

test("a link of version 1 ends with its queue", async () => {
  const name = fresh("v1-ends");
  const { link } = await receiver(connection, `/queue/${name}`);
  const ended = once(link, "receiver_error");
  await old.channel.deleteQueue(name);
  await ended;
  assert.strictEqual(refusal(link).condition, "amqp:resource-deleted");
});

test("addresses that name no node are refused in RabbitMQ's words", async () => {
  for (const [address, why] of [
    ["/queue/", '{invalid_destination,queue,"/"}'],
    ["/queue/a/b", '{invalid_destination,queue,"/a/b"}'],
    ["/exchange", "{invalid_destination,exchange,[]}"],
    ["/exchange//k", '{invalid_destination,exchange,"//k"}'],
    ["/exchange/a/b/c", '{invalid_destination,exchange,"/a/b/c"}'],
    ["/topic", "{invalid_destination,topic,[]}"],
    ["/foo/bar", '{unknown_destination,"/foo/bar"}'],
    ["foo/bar", '{unknown_destination,"foo/bar"}'],
  ]) {
    await refused(sender(connection, address), "amqp:invalid-field", `Attach refused: ${why}`);
    await refused(receiver(connection, address), "amqp:invalid-field", `Attach refused: ${why}`);
  }
  await refused(receiver(connection, "/queue"), "amqp:invalid-field", "Attach refused: {invalid_destination,queue,[]}");
  await refused(
    receiver(connection, "/exchanges/amq.topic"),
    "amqp:invalid-field",
    'Attach refused: {unknown_destination,"/exchanges/amq.topic"}',
  );
  await refused(sender(connection, "/exchange/none/k"), "amqp:not-found", "no exchange 'none' in vhost '/'");
  await refused(receiver(connection, "/exchange/none/k"), "amqp:not-found", "no exchange 'none' in vhost '/'");
  await refused(sender(connection, "/amq/queue/none"), "amqp:not-found", "no queue 'none' in vhost '/'");
});
