// stompjs and webstomp-client against a broker: `node stompjs.cjs URL`. Acknowledgements, receipts, texts, bytes, a large body, heart-beats.
const assert = require("node:assert");
const { Client } = require("@stomp/stompjs");
const webstomp = require("webstomp-client");
const WebSocket = require("ws");

const url = process.argv[2];
const login = { login: "guest", passcode: "guest", host: "/" };

/** What `begin` gives to its callback, or an error after ten seconds. */
function once(what, begin) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`not within 10 s: ${what}`)), 10_000);
    begin((value) => (clearTimeout(timer), resolve(value)), reject);
  });
}

async function stompjs(forceBinaryWSFrames) {
  const client = new Client({ connectHeaders: login, heartbeatIncoming: 1000, heartbeatOutgoing: 1000, forceBinaryWSFrames });
  client.webSocketFactory = () => new WebSocket(url, client.stompVersions.protocolVersions());
  const messages = [];
  await once("connected", (resolve, reject) => {
    Object.assign(client, { onConnect: resolve, onStompError: reject, onWebSocketError: reject });
    client.activate();
  });
  assert.equal(client.connectedVersion, "1.2");
  assert.equal(client.webSocket.protocol, "v12.stomp");
  const receipt = (id) => once(id, (resolve) => client.watchForReceipt(id, resolve));
  const queue = `/queue/stompjs-${forceBinaryWSFrames}`;
  const subscribed = receipt("subscribed");
  client.subscribe(queue, (message) => messages.push(message), { ack: "client-individual", "prefetch-count": "2", receipt: "subscribed" });
  await subscribed;
  const bytes = Uint8Array.from({ length: 200_000 }, (_, nth) => nth % 256);
  const sent = receipt("sent");
  client.publish({ destination: queue, body: "grüße\0 \u{1F407}" });
  client.publish({ destination: queue, binaryBody: bytes, headers: { "content-type": "application/octet-stream" } });
  client.publish({ destination: queue, body: "x".repeat(300_000), headers: { receipt: "sent", persistent: "true" } });
  await sent;
  await once("two messages", (resolve) => setInterval(() => messages.length === 2 && resolve(), 10).unref());
  assert.equal(messages[0].body, "grüße\0 \u{1F407}");
  assert.deepEqual(messages[1].binaryBody, bytes);
  messages.forEach((message) => message.ack());
  await once("the third", (resolve) => setInterval(() => messages.length === 3 && resolve(), 10).unref());
  assert.equal(messages[2].body.length, 300_000);
  messages[2].nack({ requeue: "false" });
  await new Promise((resolve) => setTimeout(resolve, 3000));
  assert.ok(client.connected, "heart-beats keep the connection");
  await client.deactivate();
}

/** An older client, which takes a heart-beat for one only if it has a message of its own. */
async function webstompClient() {
  const client = webstomp.over(new WebSocket(url, ["v12.stomp"]), { debug: false, heartbeat: { incoming: 1000, outgoing: 1000 } });
  await once("connected", (resolve, reject) => client.connect(login, resolve, reject));
  const message = await once("a message", (resolve) => {
    client.subscribe("/queue/webstomp", resolve);
    client.send("/queue/webstomp", "y".repeat(200_000), {});
  });
  assert.equal(message.body.length, 200_000);
  const before = client.serverActivity;
  await new Promise((resolve) => setTimeout(resolve, 2500));
  assert.ok(client.connected && client.serverActivity > before, "heart-beats come");
  await once("disconnected", (resolve) => client.disconnect(resolve));
}

async function main() {
  await Promise.all([stompjs(false), stompjs(true), webstompClient()]);
  console.log("3 clients are done");
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
