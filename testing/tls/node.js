'use strict';
// amqplib over TLS: publishes 300 KB with a confirm and gets them back. All it needs is in the environment.
const amqp = require('amqplib');
const fs = require('node:fs');

const read = (name) => (process.env[name] ? fs.readFileSync(process.env[name]) : undefined);

async function main() {
  const version = `TLSv${process.env.TLS_VERSION}`;
  const options = { ca: [read('TLS_CA')], cert: read('TLS_CERT'), key: read('TLS_KEY'), minVersion: version, maxVersion: version };
  const connection = await amqp.connect(`amqps://guest:guest@localhost:${process.env.TLS_PORT}`, options);
  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue('', { exclusive: true });
  channel.sendToQueue(queue, Buffer.alloc(300_000, 7));
  await channel.waitForConfirms();
  const message = await channel.get(queue, { noAck: true });
  if (message.content.length !== 300_000) throw new Error(`${message.content.length} bytes`);
  await connection.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
