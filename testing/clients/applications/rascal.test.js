// Rascal against a broker: its topology, publications, subscriptions, recovery strategies, redelivery limits and shovels.
'use strict';
const assert = require('node:assert');
const { test } = require('node:test');
const { randomUUID } = require('node:crypto');
const Rascal = require('rascal');

const CONNECTION = process.env.URL;
const WAIT_MS = 10_000;

/** Runs `scenario` with a broker of a topology of its own, and deletes that afterwards. */
async function withBroker(vhost, scenario, shovels = {}) {
  const config = Rascal.withTestConfig({ shovels, vhosts: { '/': { namespace: randomUUID(), connection: { url: CONNECTION }, ...vhost } } });
  config.vhosts['/'].assert = false;
  config.vhosts['/'].check = false;
  const broker = await Rascal.BrokerAsPromised.create(config);
  broker.on('error', () => {});
  try {
    await scenario(broker);
  } finally {
    await broker.nuke();
  }
}

/** Calls `each(message, content, ackOrNack)` for what comes until it returns something, which is the answer. */
async function consume(broker, name, each) {
  const subscription = await broker.subscribe(name);
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`nothing came of ${name}`)), WAIT_MS);
    const end = (done, value) => { clearTimeout(timer); done(value); };
    for (const event of ['error', 'invalid_content', 'redeliveries_exceeded']) {
      subscription.on(event, (error) => end(reject, error));
    }
    subscription.on('message', (...delivery) => {
      const answer = each(...delivery);
      if (answer !== undefined) end(resolve, answer);
    });
  });
}

const oneQueue = {
  exchanges: { orders: { type: 'topic' } },
  queues: { work: {} },
  bindings: { 'orders[order.*] -> work': {} },
  publications: { order: { exchange: 'orders', routingKey: 'order.new', confirm: true }, direct: { queue: 'work' } },
  subscriptions: { work: { queue: 'work', prefetch: 5 } },
};

test('publishes with confirms and consumes objects', () => withBroker(oneQueue, async (broker) => {
  const publication = await broker.publish('order', { number: 7 });
  await new Promise((resolve, reject) => publication.on('success', resolve).on('error', reject));
  const content = await consume(broker, 'work', (_message, body, ack) => { ack(); return body; });
  assert.deepStrictEqual(content, { number: 7 });
}));

test('publishes to a queue, with a routing key of the call', () => withBroker(oneQueue, async (broker) => {
  await broker.publish('direct', 'one');
  await broker.publish('order', 'two', 'order.changed');
  const bodies = [];
  await consume(broker, 'work', (_message, body, ack) => { ack(); bodies.push(body); return bodies.length === 2 || undefined; });
  assert.deepStrictEqual(bodies.sort(), ['one', 'two']);
}));

test('tells of a message that no queue takes', () => withBroker(oneQueue, async (broker) => {
  const publication = await broker.publish('order', 'lost', { routingKey: 'nobody', options: { mandatory: true } });
  const message = await new Promise((resolve, reject) => publication.on('return', resolve).on('error', reject));
  assert.strictEqual(message.fields.replyText, 'NO_ROUTE');
}));

test('retries by nack with requeue, then takes', () => withBroker(oneQueue, async (broker) => {
  await broker.publish('order', 'again');
  let count = 0;
  const redelivered = await consume(broker, 'work', (message, _body, ackOrNack) => {
    count += 1;
    if (count < 3) return void ackOrNack(new Error('no'), { strategy: 'nack', requeue: true });
    ackOrNack();
    return message.fields.redelivered;
  });
  assert.strictEqual(redelivered, true);
}));

test('republishes with a count in a header', () => withBroker(oneQueue, async (broker) => {
  await broker.publish('order', 'again');
  const count = await consume(broker, 'work', (message, _body, ackOrNack) => {
    const recovery = Object.values(message.properties.headers.rascal.recovery ?? {})[0];
    if ((recovery?.republished ?? 0) < 3) return void ackOrNack(new Error('no'), { strategy: 'republish', attempts: 5, defer: 10 });
    ackOrNack();
    return recovery.republished;
  });
  assert.strictEqual(count, 3);
}));

test('forwards to another queue', () => withBroker({
  ...oneQueue,
  queues: { work: {}, dead: {} },
  publications: { ...oneQueue.publications, dead: { queue: 'dead' } },
  subscriptions: { ...oneQueue.subscriptions, dead: { queue: 'dead' } },
}, async (broker) => {
  await broker.publish('order', 'bad');
  const subscription = await broker.subscribe('work');
  subscription.on('error', () => {}).on('message', (_message, _body, ackOrNack) => ackOrNack(new Error('no'), { strategy: 'forward', publication: 'dead' }));
  assert.strictEqual(await consume(broker, 'dead', (_message, body, ack) => { ack(); return body; }), 'bad');
}));

test('delays with a queue that expires messages into the next', () => withBroker({
  exchanges: { delay: { type: 'topic' }, retry: { type: 'topic' } },
  queues: {
    'delay:300': { options: { arguments: { 'x-message-ttl': 300, 'x-dead-letter-exchange': 'retry' } } },
    work: { options: { durable: true, arguments: { 'x-queue-type': 'quorum', 'x-delivery-limit': 5 } } },
  },
  bindings: { 'delay -> delay:300': {}, 'retry -> work': {} },
  publications: { later: { exchange: 'delay', routingKey: 'x' } },
  subscriptions: { work: { queue: 'work' } },
}, async (broker) => {
  const begin = Date.now();
  await broker.publish('later', 'late');
  const reason = await consume(broker, 'work', (message, _body, ack) => { ack(); return message.properties.headers['x-death'][0].reason; });
  assert.strictEqual(reason, 'expired');
  assert.ok(Date.now() - begin >= 290, 'it came early');
}));

test('shovels from a subscription to a publication', () => withBroker({
  ...oneQueue,
  queues: { work: {}, copy: {} },
  publications: { ...oneQueue.publications, copy: { queue: 'copy', confirm: true } },
  subscriptions: { ...oneQueue.subscriptions, copy: { queue: 'copy' } },
}, async (broker) => {
  await broker.publish('order', 'carried');
  assert.strictEqual(await consume(broker, 'copy', (_message, body, ack) => { ack(); return String(body); }), 'carried');
}, { 'work -> copy': {} }));

test('bounds what it prefetches, cancels and purges', () => withBroker(oneQueue, async (broker) => {
  for (let i = 0; i < 20; i += 1) await broker.publish('order', i);
  await new Promise((resolve) => { setTimeout(resolve, 300); });
  const unacked = [];
  let draining = false;
  const subscription = await broker.subscribe('work');
  subscription.on('error', () => {}).on('message', (_message, _body, ack) => (draining ? ack() : unacked.push(ack)));
  await new Promise((resolve) => { setTimeout(resolve, 500); });
  assert.strictEqual(unacked.length, 5);
  draining = true;
  const cancelled = subscription.cancel();
  for (const ack of unacked) ack();
  await cancelled;
  await broker.purge();
}));
