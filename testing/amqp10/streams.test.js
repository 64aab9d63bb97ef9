// Streams over AMQP 1.0: where a link begins, what it filters, credit and drain, and the way between the protocols.
"use strict";
const { test, before, after } = require("node:test");
const assert = require("node:assert");
const { connect, sender, send, receiver, legacy, once, fresh, pause, refusal, rhea } = require("./link.js");
const { types } = rhea;

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

const described = (name, value) => types.wrap_described(value, name);
const OFFSET = "rabbitmq:stream-offset-spec";

async function stream() {
  const name = fresh("stream");
  await old.channel.assertQueue(name, { durable: true, arguments: { "x-queue-type": "stream" } });
  return name;
}

/** Publishes messages one by one, so that each has a chunk of its own. */
async function fill(name, messages) {
  const link = await sender(connection, `/queues/${name}`);
  for (const message of messages) assert.strictEqual((await send(link, message)).name, "accepted");
  link.close();
}

const numbered = (count) => Array.from({ length: count }, (_, nth) => ({ body: `m${nth}` }));

/** A link with filters: name, descriptor, value. */
function reader(name, filters = [], options = {}) {
  const filter = {};
  for (const [key, descriptor, value] of filters) filter[key] = described(descriptor, value);
  return receiver(connection, { address: `/queues/${name}`, filter }, options);
}

async function bodies(link, count, credit = count) {
  link.link.add_credit(credit);
  const got = [];
  while (got.length < count) {
    const { message, delivery } = await link.next();
    got.push(message.body);
    if (!delivery.remote_settled) delivery.accept();
  }
  return got;
}

test("a link begins where its offset says, and each message tells its own", async () => {
  const name = await stream();
  await fill(name, numbered(5));
  const begins = async (value, first, count) => {
    const link = await reader(name, [[OFFSET, OFFSET, value]]);
    assert.deepStrictEqual(Object.keys(link.link.source.filter || {}), [OFFSET]);
    link.link.add_credit(10);
    for (let nth = first; nth < first + count; nth++) {
      const { message, delivery } = await link.next();
      assert.strictEqual(message.body, `m${nth}`);
      assert.strictEqual(message.message_annotations["x-stream-offset"], nth);
      delivery.accept();
    }
    link.link.close();
  };
  await begins("first", 0, 5);
  await begins(types.wrap_ulong(3), 3, 2);
  await begins(types.wrap_long(3), 3, 2);
  await begins("last", 4, 1);
  await begins(types.wrap_timestamp(Date.now() - 60_000), 0, 5);
  await begins("1h", 0, 5);
  await begins(types.wrap_symbol("first"), 0, 5);

  const next = await reader(name, [[OFFSET, OFFSET, "next"]]);
  const unsaid = await reader(name);
  for (const link of [next, unsaid]) link.link.add_credit(10);
  await pause(50);
  await fill(name, [{ body: "new" }]);
  for (const link of [next, unsaid]) {
    assert.strictEqual((await link.next()).message.body, "new");
    assert.strictEqual(link.inbox.length, 0);
    link.link.close();
  }
});

test("an offset that makes no sense is refused or left out", async () => {
  const name = await stream();
  await assert.rejects(reader(name, [[OFFSET, OFFSET, "nonsense"]]), { condition: "amqp:precondition-failed" });
  const left = await reader(name, [[OFFSET, OFFSET, types.wrap_long(-1)]]);
  assert.deepStrictEqual(Object.keys(left.link.source.filter || {}), []);
  left.link.close();
});

// B188
test("credit bounds what comes, drain is answered at the end, and settling gives no credit", async () => {
  const name = await stream();
  await fill(name, numbered(5));
  const link = await reader(name, [[OFFSET, OFFSET, "first"]]);
  assert.deepStrictEqual(await bodies(link, 2), ["m0", "m1"]);
  await pause(100);
  assert.strictEqual(link.inbox.length, 0);
  assert.strictEqual(String(link.link.source.distribution_mode), "copy");
  assert.deepStrictEqual(link.link.remote.attach.offered_capabilities.map(String), [
    "AMQP_FILTEX_PROP_V1_0",
    "AMQP_FILTEX_SQL_V1_0",
  ]);
  link.link.drain = true;
  const drained = once(link.link, "receiver_drained");
  assert.deepStrictEqual(await bodies(link, 3, 10), ["m2", "m3", "m4"]);
  await drained;
  assert.strictEqual(link.link.credit, 0);
  await fill(name, [{ body: "more" }]);
  await pause(100);
  assert.strictEqual(link.inbox.length, 0);
  link.link.drain = false;
  assert.deepStrictEqual(await bodies(link, 1), ["more"]);
  link.link.close();
});

test("deliveries may be sent settled", async () => {
  const name = await stream();
  await fill(name, numbered(3));
  const link = await reader(name, [[OFFSET, OFFSET, "first"]], { snd_settle_mode: 1 });
  assert.deepStrictEqual(await bodies(link, 3), ["m0", "m1", "m2"]);
  link.link.close();
});

test("rejected and released messages stay where they are", async () => {
  const name = await stream();
  await fill(name, numbered(3));
  const link = await reader(name, [[OFFSET, OFFSET, "first"]]);
  link.link.add_credit(3);
  (await link.next()).delivery.reject();
  (await link.next()).delivery.release({ delivery_failed: true });
  (await link.next()).delivery.release();
  link.link.close();
  const again = await reader(name, [[OFFSET, OFFSET, "first"]]);
  assert.deepStrictEqual(await bodies(again, 3), ["m0", "m1", "m2"]);
  again.link.close();
});

test("filter values choose chunks, unfiltered ones by wish", async () => {
  const name = await stream();
  const value = (text, body) => ({ body, message_annotations: { "x-stream-filter-value": text } });
  await fill(name, [value("emea", "a"), { body: "plain" }, value("apac", "b"), value("emea", "c")]);
  const first = [OFFSET, OFFSET, "first"];
  const filtered = async (filters, expected) => {
    const link = await reader(name, [first, ...filters]);
    assert.strictEqual(Object.keys(link.link.source.filter).length, filters.length + 1);
    assert.deepStrictEqual(await bodies(link, expected.length, 10), expected);
    await pause(50);
    assert.strictEqual(link.inbox.length, 0);
    link.link.close();
  };
  const one = (text) => ["rabbitmq:stream-filter", "rabbitmq:stream-filter", text];
  const unfiltered = ["rabbitmq:stream-match-unfiltered", "rabbitmq:stream-match-unfiltered", true];
  await filtered([one("emea")], ["a", "c"]);
  await filtered([one(types.wrap_list([types.wrap_string("apac"), types.wrap_string("emea")]))], ["a", "b", "c"]);
  await filtered([one("apac"), unfiltered], ["plain", "b"]);
});

// B187
test("property filters look at each message", async () => {
  const name = await stream();
  await fill(name, [
    { body: "a", subject: "order.created", application_properties: { region: "eu-west", count: 1 } },
    { body: "b", subject: "order.deleted", application_properties: { region: "eu-east", count: 2 } },
    { body: "c", subject: "invoice.created", application_properties: { region: "us", count: 1 } },
    { body: "d" },
  ]);
  const map = (entries) => types.wrap_symbolic_map(entries);
  const filtered = async (filters, expected, accepted = filters.length) => {
    const link = await reader(name, [[OFFSET, OFFSET, "first"], ...filters]);
    assert.strictEqual(Object.keys(link.link.source.filter).length, 1 + accepted);
    assert.deepStrictEqual(await bodies(link, expected.length, 10), expected);
    await pause(50);
    assert.strictEqual(link.inbox.length, 0);
    link.link.close();
  };
  const subject = (text) => ["p", "amqp:properties-filter", map({ subject: text })];
  const own = (entries) => ["a", "amqp:application-properties-filter", types.wrap_map(entries)];
  await filtered([subject("order.created")], ["a"]);
  await filtered([subject("&p:order.")], ["a", "b"]);
  await filtered([subject("&s:.created")], ["a", "c"]);
  await filtered([own({ region: "&p:eu", count: 1 })], ["a"]);
  await filtered([own({ count: 1 }), subject("&s:.created")], ["a", "c"]);
  await filtered([subject("&z:order")], ["a", "b", "c", "d"], 0);
});

test("SQL filters look at each message", async () => {
  const name = await stream();
  await fill(name, [
    { body: "a", subject: "order.created", priority: 9, application_properties: { region: "eu", count: 1 } },
    { body: "b", subject: "order.deleted", application_properties: { region: "eu", count: 20 } },
    { body: "c", message_id: "x1", application_properties: { region: "us", price: 1.5 } },
  ]);
  const filtered = async (sql, expected, accepted = 1) => {
    const link = await reader(name, [[OFFSET, OFFSET, "first"], ["sql-filter", "amqp:sql-filter", sql]]);
    assert.strictEqual(Object.keys(link.link.source.filter).length, 1 + accepted, sql);
    assert.deepStrictEqual(await bodies(link, expected.length, 10), expected, sql);
    await pause(30);
    assert.strictEqual(link.inbox.length, 0, sql);
    link.link.close();
  };
  await filtered("region = 'eu' AND count > 10", ["b"]);
  await filtered("properties.subject LIKE 'order.%'", ["a", "b"]);
  await filtered("p.subject IS NULL OR header.priority > 4", ["a", "c"]);
  await filtered("region IN ('us', 'asia') AND price * 2 = 3", ["c"]);
  await filtered("NOT p.message_id = 'x1'", []);
  await filtered("region = ", ["a", "b", "c"], 0);
});

test("a link that filters drains when nothing more fits", async () => {
  const name = await stream();
  await fill(name, numbered(20));
  const link = await reader(name, [
    [OFFSET, OFFSET, "first"],
    ["sql-filter", "amqp:sql-filter", "p.subject = 'none'"],
  ]);
  link.link.drain = true;
  const drained = once(link.link, "receiver_drained");
  link.link.add_credit(5);
  await drained;
  assert.strictEqual(link.inbox.length, 0);
  link.link.close();
});

test("messages of AMQP 0-9-1 come with their annotations, and the other way round", async () => {
  const name = await stream();
  old.channel.sendToQueue(name, Buffer.from("old"), { headers: { "x-mine": "yes", plain: 5 }, messageId: "id" });
  await old.channel.waitForConfirms();
  const link = await reader(name, [[OFFSET, OFFSET, "first"]]);
  link.link.add_credit(1);
  const { message } = await link.next();
  assert.strictEqual(message.body.content.toString(), "old");
  assert.strictEqual(message.message_id, "id");
  assert.deepStrictEqual({ ...message.application_properties }, { plain: 5 });
  const annotations = message.message_annotations;
  assert.deepStrictEqual(
    [annotations["x-mine"], annotations["x-exchange"], annotations["x-routing-key"], annotations["x-stream-offset"]],
    ["yes", "", name, 0],
  );
  link.link.close();

  await fill(name, [{ body: rhea.message.data_section(Buffer.from("new")), application_properties: { a: "b" } }]);
  await old.channel.prefetch(10);
  const got = await new Promise((resolve) => {
    old.channel.consume(name, resolve, { arguments: { "x-stream-offset": 1 } });
  });
  assert.strictEqual(got.content.toString(), "new");
  assert.deepStrictEqual([got.properties.headers.a, got.properties.headers["x-stream-offset"]], ["b", 1]);
  await old.channel.cancel(got.fields.consumerTag);
});

test("a link to a stream ends with it", async () => {
  const name = await stream();
  const link = await reader(name);
  const closed = once(link.link, "receiver_error");
  await old.channel.deleteQueue(name);
  await closed;
  assert.strictEqual(refusal(link.link).condition, "amqp:resource-deleted");
});
