'use strict';
// amqplib's promise API: the RabbitMQ tutorials' patterns, then what applications meet when things go wrong.
//
//   AMQP_URL=... NODE_PATH=.cache/node/node_modules node --test testing/clients/node/
//
// BROKER_RESTART is a shell command that restarts the broker on the same port; without it the reconnect test is skipped and says so.

const amqp = require('amqplib');
const assert = require('node:assert/strict');
const { exec } = require('node:child_process');
const crypto = require('node:crypto');
const { once } = require('node:events');
const { promisify } = require('node:util');
const { after, afterEach, beforeEach, test } = require('node:test');

const url = process.env.AMQP_URL || 'amqp://guest:guest@127.0.0.1:5672/%2F';
const restartCommand = process.env.BROKER_RESTART;
const run = crypto.randomBytes(5).toString('hex');
const unique = (stem) => `node.${run}.${stem}`;

/** Every test has a deadline: a hang is a failure. */
const check = (name, body, timeout = 30_000) => test(name, { timeout }, body);

let connections = [];
let leftovers = { queues: new Set(), exchanges: new Set() };

async function connect(options) {
  const connection = await amqp.connect(url, options);
  connection.on('error', () => {});
  connections.push(connection);
  return connection;
}

async function openChannel(kind = 'createChannel') {
  const channel = await (await connect())[kind]();
  channel.on('error', () => {});
  return channel;
}

const durableQueue = (name) => (leftovers.queues.add(name), name);
const durableExchange = (name) => (leftovers.exchanges.add(name), name);
const exclusiveQueue = async (channel, args) => (await channel.assertQueue('', { exclusive: true, arguments: args })).queue;

/** The next `count` messages of a queue; fails when they do not come in time. */
async function take(channel, queue, count, options = { noAck: true }) {
  const got = [];
  let finish;
  const all = new Promise((resolve) => { finish = resolve; });
  const { consumerTag } = await channel.consume(queue, (message) => {
    got.push(message);
    if (got.length === count) finish();
  }, options);
  await Promise.race([all, rejectAfter(10_000, () => `${got.length} of ${count} messages of ${queue} came`)]);
  await channel.cancel(consumerTag);
  return got;
}

function rejectAfter(ms, text) {
  return new Promise((_, reject) => setTimeout(() => reject(new Error(text())), ms).unref());
}

const within = (promise, ms, text) => Promise.race([promise, rejectAfter(ms, () => text)]);
const bodies = (messages) => messages.map((message) => message.content.toString());

async function until(condition, text, ms = 10_000) {
  const end = Date.now() + ms;
  while (!(await condition())) {
    assert.ok(Date.now() < end, text);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

beforeEach(() => { connections = []; });
afterEach(async () => {
  for (const connection of connections) {
    try { await connection.close(); } catch { /* already closed by the test or by the broker */ }
  }
});
after(async () => {
  const connection = await amqp.connect(url);
  const channel = await connection.createChannel();
  for (const queue of leftovers.queues) await channel.deleteQueue(queue);
  for (const exchange of leftovers.exchanges) await channel.deleteExchange(exchange);
  await connection.close();
});

// ---- the tutorials

check('hello world', async () => {
  const channel = await openChannel();
  const queue = await exclusiveQueue(channel);
  assert.match(queue, /^amq\.gen-/);
  assert.ok(channel.sendToQueue(queue, Buffer.from('Hello World!')));
  const [message] = await take(channel, queue, 1);
  assert.equal(message.content.toString(), 'Hello World!');
  assert.deepEqual([message.fields.exchange, message.fields.routingKey, message.fields.redelivered], ['', queue, false]);
});

check('work queue: prefetch 1 gives tasks to whoever is free', async () => {
  const queue = durableQueue(unique('tasks'));
  const publisher = await openChannel('createConfirmChannel');
  await publisher.assertQueue(queue, { durable: true });
  const [slow, fast] = [await openChannel(), await openChannel()];
  const held = [];
  let done = 0;
  await slow.prefetch(1);
  await fast.prefetch(1);
  await slow.consume(queue, (message) => held.push(message));
  await fast.consume(queue, (message) => { done += 1; fast.ack(message); });
  for (let i = 0; i < 20; i++) publisher.sendToQueue(queue, Buffer.from(`${i}`), { persistent: true });
  await publisher.waitForConfirms();
  await until(() => done === 19, 'the free worker gets the rest');
  assert.equal(held.length, 1);
  slow.nackAll();
  await until(() => done === 20 || held.length === 2, 'what is given back is given out again');
  for (const message of held.slice(1)) { assert.ok(message.fields.redelivered); slow.ack(message); }
  await until(async () => (await publisher.checkQueue(queue)).messageCount === 0, 'all is done');
});

check('publish/subscribe, routing and topics', async () => {
  const channel = await openChannel();
  const cases = [
    ['fanout', '', ['a', 'b.c', 'b.c.d', '']],
    ['direct', 'b.c', ['b.c']],
    ['topic', 'b.*', ['b.c']],
    ['topic', 'b.#', ['b.c', 'b.c.d']],
    ['topic', '#', ['a', 'b.c', 'b.c.d', '']],
  ];
  for (const [index, [type, binding, expected]] of cases.entries()) {
    const exchange = durableExchange(unique(`${type}${index}`));
    await channel.assertExchange(exchange, type, { durable: false });
    const queue = await exclusiveQueue(channel);
    await channel.bindQueue(queue, exchange, binding);
    for (const key of ['a', 'b.c', 'b.c.d', '']) channel.publish(exchange, key, Buffer.from(key));
    assert.deepEqual(bodies(await take(channel, queue, expected.length)), expected, `${type} ${binding}`);
    await channel.unbindQueue(queue, exchange, binding);
    channel.publish(exchange, 'b.c', Buffer.from('after unbind'));
    assert.equal((await channel.checkQueue(queue)).messageCount, 0);
  }
});

check('headers exchange and exchange-to-exchange bindings', async () => {
  const channel = await openChannel();
  const [headers, fanout] = [durableExchange(unique('headers')), durableExchange(unique('behind'))];
  await channel.assertExchange(headers, 'headers');
  await channel.assertExchange(fanout, 'fanout');
  await channel.bindExchange(fanout, headers, '', { 'x-match': 'any', colour: 'red', size: 3 });
  const queue = await exclusiveQueue(channel);
  await channel.bindQueue(queue, fanout, '');
  channel.publish(headers, '', Buffer.from('red'), { headers: { colour: 'red' } });
  channel.publish(headers, '', Buffer.from('blue'), { headers: { colour: 'blue' } });
  channel.publish(headers, '', Buffer.from('three'), { headers: { colour: 'blue', size: 3 } });
  assert.deepEqual(bodies(await take(channel, queue, 2)), ['red', 'three']);
});

check('RPC with direct reply-to', async () => {
  const queue = durableQueue(unique('rpc'));
  const server = await openChannel();
  await server.assertQueue(queue);
  await server.consume(queue, (message) => {
    assert.notEqual(message.properties.replyTo, 'amq.rabbitmq.reply-to');
    const answer = Buffer.from(message.content.toString().toUpperCase());
    server.sendToQueue(message.properties.replyTo, answer, { correlationId: message.properties.correlationId });
    server.ack(message);
  });
  const client = await openChannel();
  const waiting = new Map();
  await client.consume('amq.rabbitmq.reply-to', (message) => waiting.get(message.properties.correlationId)(message.content.toString()), { noAck: true });
  const call = (text) => new Promise((resolve) => {
    const correlationId = crypto.randomUUID();
    waiting.set(correlationId, resolve);
    client.sendToQueue(queue, Buffer.from(text), { replyTo: 'amq.rabbitmq.reply-to', correlationId });
  });
  const texts = Array.from({ length: 100 }, (_, i) => `call ${i}`);
  assert.deepEqual(await within(Promise.all(texts.map(call)), 10_000, 'replies are missing'), texts.map((text) => text.toUpperCase()));
});

check('publisher confirms: one by one, in a batch, and by callback', async () => {
  const queue = durableQueue(unique('confirms'));
  const channel = await openChannel('createConfirmChannel');
  await channel.assertQueue(queue);
  for (let i = 0; i < 20; i++) {
    channel.sendToQueue(queue, Buffer.from(`${i}`), { persistent: true });
    await channel.waitForConfirms();
  }
  for (let i = 0; i < 500; i++) channel.sendToQueue(queue, Buffer.from(`${i}`), { persistent: true });
  await channel.waitForConfirms();
  const confirmed = [];
  await within(Promise.all(Array.from({ length: 500 }, (_, i) => new Promise((resolve, reject) => {
    channel.sendToQueue(queue, Buffer.from(`${i}`), { persistent: true }, (error) => (error ? reject(error) : resolve(confirmed.push(i))));
  }))), 15_000, 'confirms are missing');
  assert.deepEqual(confirmed.sort((a, b) => a - b), Array.from({ length: 500 }, (_, i) => i));
  assert.equal((await channel.checkQueue(queue)).messageCount, 1020);
  assert.equal((await channel.purgeQueue(queue)).messageCount, 1020);
});

check('get: one message at a time, and how many are left', async () => {
  const channel = await openChannel();
  const queue = await exclusiveQueue(channel);
  assert.equal(await channel.get(queue), false);
  for (const text of ['a', 'b', 'c']) channel.sendToQueue(queue, Buffer.from(text));
  await until(async () => (await channel.checkQueue(queue)).messageCount === 3, 'all are there');
  const first = await channel.get(queue);
  assert.deepEqual([first.content.toString(), first.fields.messageCount], ['a', 2]);
  channel.nack(first);
  const again = await channel.get(queue);
  assert.deepEqual([again.content.toString(), again.fields.redelivered], ['a', true]);
  channel.ack(again);
});

// ---- when things go wrong

check('mandatory: an unroutable message is returned before its confirm', async () => {
  const channel = await openChannel('createConfirmChannel');
  const order = [];
  channel.on('return', (message) => order.push(['return', message.fields.replyCode, message.fields.replyText, message.content.toString()]));
  const options = { mandatory: true, headers: { kept: 'yes' } };
  await new Promise((resolve) => channel.publish('', unique('nowhere'), Buffer.from('lost'), options, (error) => resolve(order.push(['confirm', error]))));
  assert.deepEqual(order, [['return', 312, 'NO_ROUTE', 'lost'], ['confirm', null]]);
});

check('overflow reject-publish nacks', async () => {
  const channel = await openChannel('createConfirmChannel');
  const queue = await exclusiveQueue(channel, { 'x-max-length': 1, 'x-overflow': 'reject-publish' });
  const publish = (text) => new Promise((resolve) => channel.sendToQueue(queue, Buffer.from(text), {}, resolve));
  assert.equal(await publish('1'), null);
  assert.ok(await publish('2') instanceof Error);
});

check('a consumer is told when its queue is deleted: message is null', async () => {
  const queue = durableQueue(unique('doomed'));
  const channel = await openChannel();
  await channel.assertQueue(queue);
  const told = new Promise((resolve) => channel.consume(queue, resolve));
  await channel.checkQueue(queue);
  await (await openChannel()).deleteQueue(queue);
  assert.equal(await within(told, 10_000, 'basic.cancel did not come'), null);
});

check('priorities', async () => {
  const channel = await openChannel();
  const queue = await exclusiveQueue(channel, { 'x-max-priority': 5 });
  for (const priority of [0, 3, 5, 1]) channel.sendToQueue(queue, Buffer.from(`${priority}`), { priority });
  await until(async () => (await channel.checkQueue(queue)).messageCount === 4, 'all are there');
  assert.deepEqual(bodies(await take(channel, queue, 4)), ['5', '3', '1', '0']);
});

check('expired and rejected messages are dead-lettered', async () => {
  const channel = await openChannel();
  const dead = await exclusiveQueue(channel);
  const queue = await exclusiveQueue(channel, { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': dead });
  channel.sendToQueue(queue, Buffer.from('expired'), { expiration: 30 });
  const [expired] = await take(channel, dead, 1);
  assert.deepEqual(bodies([expired]), ['expired']);
  const [death] = expired.properties.headers['x-death'];
  assert.deepEqual([death.count, death.reason, death.queue, death.exchange, death['routing-keys'], death['original-expiration']],
    [1, 'expired', queue, '', [queue], '30']);
  assert.equal(death.time['!'], 'timestamp');
  channel.sendToQueue(queue, Buffer.from('rejected'));
  await until(async () => {
    const message = await channel.get(queue);
    if (message) channel.reject(message, false);
    return message;
  }, 'the message comes');
  const [rejected] = await take(channel, dead, 1);
  assert.equal(rejected.properties.headers['x-first-death-reason'], 'rejected');
});

check('a large message and an empty one', async () => {
  const channel = await openChannel();
  const queue = await exclusiveQueue(channel);
  const large = crypto.randomBytes(10 * 1024 * 1024);
  channel.sendToQueue(queue, large);
  channel.sendToQueue(queue, Buffer.alloc(0));
  const [first, second] = await take(channel, queue, 2);
  assert.ok(first.content.equals(large));
  assert.equal(second.content.length, 0);
});

check('header values of all types round-trip', async () => {
  const channel = await openChannel();
  const queue = await exclusiveQueue(channel);
  const typed = (type, value) => ({ '!': type, value });
  const headers = {
    yes: true, no: false, text: 'Grüße, 世界', empty: '', nothing: null, double: 3.25, small: 5, negative: -129, medium: 70_000, large: 2 ** 49,
    int8: typed('int8', -100), short: typed('short', -30_000), int32: typed('int', -2_000_000_000), long: typed('long', 12345678901),
    float: typed('float', 1.5), time: typed('timestamp', 1_700_000_000), decimal: typed('decimal', { digits: 314, places: 2 }),
    bytes: Buffer.from([0, 255, 128]), table: { deeper: { list: [1, 'two', [true, null]] } }, list: [1, 'two', { three: 3 }], none: {}, nil: [],
  };
  const received = { ...headers, int8: -100, short: -30_000, int32: -2_000_000_000, long: 12345678901, float: 1.5 };
  channel.sendToQueue(queue, Buffer.from('x'), { headers, contentType: 'text/plain', contentEncoding: 'utf-8', persistent: true, priority: 4,
    correlationId: 'c', replyTo: 'r', expiration: '60000', messageId: 'm', timestamp: 1_700_000_000, type: 't', appId: 'a' });
  const [{ properties }] = await take(channel, queue, 1);
  assert.deepEqual(properties.headers, received);
  if (process.env.BROKER_FLAVOR !== 'rabbitmq4') { // which sorts them
    assert.deepEqual(Object.keys(properties.headers), Object.keys(headers), 'in the order in which they were sent');
  }
  const { headers: _, ...rest } = properties;
  assert.deepEqual(rest, { contentType: 'text/plain', contentEncoding: 'utf-8', deliveryMode: 2, priority: 4, correlationId: 'c', replyTo: 'r',
    expiration: '60000', messageId: 'm', timestamp: 1_700_000_000, type: 't', userId: undefined, appId: 'a', clusterId: undefined });
});

check('many channels of one connection', async () => {
  const connection = await connect();
  const channels = await Promise.all(Array.from({ length: 200 }, () => connection.createChannel()));
  const queues = await Promise.all(channels.map((channel) => exclusiveQueue(channel)));
  channels.forEach((channel, i) => channel.sendToQueue(queues[queues.length - 1 - i], Buffer.from(`${queues.length - 1 - i}`)));
  const got = await Promise.all(channels.map((channel, i) => take(channel, queues[i], 1)));
  assert.deepEqual(got.map(([message]) => Number(message.content)), queues.map((_, i) => i));
  await Promise.all(channels.map((channel) => channel.close()));
});

check('channel errors: 404 and 406 with their texts, the connection lives on', async () => {
  const connection = await connect();
  const failing = async (action) => {
    const channel = await connection.createChannel();
    const closed = once(channel, 'error');
    action(channel).catch(() => {});
    const [error] = await within(closed, 10_000, 'the channel stays open');
    return [error.code, error.message];
  };
  const missing = unique('missing');
  assert.deepEqual(await failing((channel) => channel.checkQueue(missing)),
    [404, `Channel closed by server: 404 (NOT-FOUND) with message "NOT_FOUND - no queue '${missing}' in vhost '/'"`]);
  assert.deepEqual(await failing(async (channel) => channel.publish(missing, '', Buffer.from('x'))),
    [404, `Channel closed by server: 404 (NOT-FOUND) with message "NOT_FOUND - no exchange '${missing}' in vhost '/'"`]);
  const exchange = durableExchange(unique('declared'));
  const channel = await connection.createChannel();
  await channel.assertExchange(exchange, 'topic');
  const [code, text] = await failing((ch) => ch.assertExchange(exchange, 'topic', { autoDelete: true }));
  assert.equal(code, 406);
  assert.ok(text.includes(`inequivalent arg 'auto_delete' for exchange '${exchange}' in vhost '/': received 'true' but current is 'false'`), text);
  const [unknown, why] = await failing(async (ch) => ch.ack({ fields: { deliveryTag: 99 } }));
  assert.equal(unknown, 406);
  assert.ok(why.includes('PRECONDITION_FAILED - unknown delivery tag 99'), why);
  await channel.checkExchange(exchange);
});

check('connection errors: reusing a consumer tag is 530 and closes the connection', async () => {
  const connection = await connect();
  const channel = await connection.createChannel();
  channel.on('error', () => {});
  const queue = await exclusiveQueue(channel);
  const failed = once(connection, 'error');
  await channel.consume(queue, () => {}, { consumerTag: 'twice' });
  // amqplib looks at tags itself; below its API it does not
  const definitions = require('node:path').join(require.resolve('amqplib'), '..', 'lib', 'defs.js');
  const { BasicConsume } = require(definitions);
  channel.sendImmediately(BasicConsume, { queue, consumerTag: 'twice', noLocal: false, noAck: false, exclusive: false, nowait: false, arguments: {}, ticket: 0 });
  const [error] = await within(failed, 10_000, 'the connection stays open');
  assert.equal(error.code, 530);
  assert.match(error.message, /NOT_ALLOWED - attempt to reuse consumer tag 'twice'/);
});

check('wrong password and missing vhost are refused', async () => {
  const wrong = new URL(url);
  wrong.password = 'wrong';
  await assert.rejects(amqp.connect(wrong.href), /ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN/);
  const nowhere = new URL(url);
  nowhere.pathname = '/nowhere';
  await assert.rejects(amqp.connect(nowhere.href), /Expected ConnectionOpenOk; got <ConnectionClose/); // amqplib hides the text
});

test('reconnect after a broker restart', { timeout: 90_000, skip: restartCommand ? false : 'BROKER_RESTART is not set: reconnecting was NOT tested' }, async () => {
  const queue = durableQueue(unique('survivor'));
  const got = [];
  let channel;
  const connection = await amqp.connect(url, {
    recovery: {
      initialDelay: 100,
      maxDelay: 500,
      async setup(model) {
        channel = await model.createConfirmChannel();
        channel.on('error', () => {});
        await channel.assertQueue(queue, { durable: true });
        await channel.consume(queue, (message) => {
          if (!message) return;
          got.push(message.content.toString());
          channel.ack(message);
        });
      },
    },
  });
  connection.on('error', () => {});
  channel.sendToQueue(queue, Buffer.from('before'), { persistent: true });
  await channel.waitForConfirms();
  await until(() => got.includes('before'), 'first message');
  const old = channel;
  await promisify(exec)(restartCommand, { timeout: 60_000 });
  await until(() => channel !== old, 'the client comes back by itself', 45_000);
  await until(async () => {
    try {
      channel.sendToQueue(queue, Buffer.from('after'), { persistent: true });
      await channel.waitForConfirms();
      return true;
    } catch {
      return false;
    }
  }, 'publishing works again');
  await until(() => got.includes('after'), 'and consuming');
  await connection.close();
});
