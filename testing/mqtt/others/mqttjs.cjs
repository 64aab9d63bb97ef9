// MQTT.js against a broker: `node mqttjs.cjs URL VERSION...`. Every QoS, a large body, a will, a session that is taken up again.
const assert = require("node:assert");
const mqtt = require("mqtt");

const [url, ...versions] = process.argv.slice(2);

const next = (client) => new Promise((resolve) => client.once("message", (topic, body, packet) => resolve({ topic, body, packet })));

async function run(protocolVersion) {
  const base = `js/${url.split(":")[0]}/${protocolVersion}`;
  const options = { protocolVersion, protocolId: protocolVersion === 3 ? "MQIsdp" : "MQTT", username: "guest", password: "guest", reconnectPeriod: 0, connectTimeout: 10000 };
  const connect = (given) => mqtt.connectAsync(url, { ...options, ...given }, false);
  const lasting = { clientId: base.replaceAll("/", "-"), clean: false, properties: protocolVersion === 5 ? { sessionExpiryInterval: 60 } : undefined };
  let reader = await connect(lasting);
  await reader.subscribeAsync(`${base}/#`, { qos: 2 });
  const sender = await connect({ clean: true });
  for (const qos of [0, 1, 2]) {
    const came = next(reader);
    await sender.publishAsync(`${base}/${qos}`, Buffer.alloc(200000, qos), { qos });
    const { topic, body, packet } = await came;
    assert.deepStrictEqual([topic, body.length, body[199999], packet.qos], [`${base}/${qos}`, 200000, qos, qos]);
  }
  await reader.endAsync();
  await sender.publishAsync(`${base}/away`, "while it was away", { qos: 1 });
  reader = mqtt.connect(url, { ...options, ...lasting });
  assert.strictEqual((await next(reader)).body.toString(), "while it was away");
  const dying = await connect({ clean: true, will: { topic: `${base}/will`, payload: "gone", qos: 1 } });
  const will = next(reader);
  dying.stream.destroy();
  assert.strictEqual((await will).body.toString(), "gone");
  await sender.publishAsync(`${base}/kept`, "kept", { qos: 1, retain: true });
  await reader.unsubscribeAsync(`${base}/#`);
  const kept = next(reader);
  await reader.subscribeAsync(`${base}/kept`, { qos: 1 });
  assert.strictEqual((await kept).packet.retain, true);
  await sender.publishAsync(`${base}/kept`, "", { qos: 1, retain: true });
  await reader.endAsync();
  await sender.endAsync();
}

(async () => {
  for (const version of versions.map(Number)) await run(version);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
