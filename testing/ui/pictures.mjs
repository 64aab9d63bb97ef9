// Takes the pictures of docs/ui.md anew: a small shop at work on an empty broker, three minutes. Not a test.
//   MANAGEMENT_URL=... AMQP_URL=... node testing/ui/pictures.mjs   (as testing/ui/ui.test.mjs; writes docs/images/ui-*.png)
import { AMQP, Browser, amqp, api } from "./browser.mjs";

const IMAGES = new URL("../../docs/images/", import.meta.url).pathname;
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

await api("vhosts/shop", { method: "PUT", body: { description: "Orders and what follows from them" } });
await api("permissions/shop/guest", { method: "PUT", body: { configure: ".*", write: ".*", read: ".*" } });
const connect = (name) => amqp.connect(AMQP.replace(/\/[^/]*$/, "/shop"), { clientProperties: { connection_name: name } });
const publisher = await connect("web shop"), consumer = await connect("billing service");
const out = await publisher.createConfirmChannel(), into = await consumer.createChannel();

for (const [name, type, options] of [["letters", "direct"], ["orders", "topic", { alternateExchange: "letters" }], ["orders.eu", "fanout"], ["audit", "headers"], ["later", "x-delayed-message", { arguments: { "x-delayed-type": "topic" } }]]) await out.assertExchange(name, type, options);
for (const [name, options] of [["billing", { deadLetterExchange: "letters", messageTtl: 3600000 }], ["shipping"], ["analytics", { maxLength: 20000 }], ["eu-mirror", { arguments: { "x-max-length-bytes": 30000, "x-overflow": "reject-publish" } }], ["audit-log"], ["unpaid"], ["reminders", { messageTtl: 0, deadLetterExchange: "letters" }]]) await out.assertQueue(name, options);
for (const [queue, exchange, key, args] of [["billing", "orders", "order.*.created"], ["shipping", "orders", "order.*.paid"], ["analytics", "orders", "#"], ["eu-mirror", "orders.eu", ""], ["audit-log", "audit", "", { "x-match": "any", region: "eu" }], ["unpaid", "letters", "order.eu.created"], ["unpaid", "later", "order.#"], ["reminders", "later", "order.eu.#"], ["eu-mirror", "later", "order.eu.#"]]) await out.bindQueue(queue, exchange, key, args);
await out.bindExchange("orders.eu", "orders", "order.eu.#");

let wave = 0;
let load = setInterval(() => {
  wave += 1;
  const many = Math.round(400 + 250 * Math.sin(wave / 60));
  for (let i = 0; i < many; i += 1) out.publish("orders", i % 3 ? "order.us.created" : i % 2 ? "order.eu.created" : "order.us.paid", Buffer.alloc(300 + (i % 7) * 100, "x"), { persistent: true, contentType: "application/json" });
  for (let i = 0; i < many / 20; i += 1) out.publish("later", "order.us.created", Buffer.alloc(100), { headers: { "x-delay": 2000 } });
}, 50);
await into.prefetch(200);
await into.consume("billing", (message) => setTimeout(() => { if (load) into.ack(message); }, 20), { consumerTag: "billing-1" });
await into.consume("shipping", (message) => into.ack(message), { consumerTag: "shipping-1" });
const slow = await consumer.createChannel();
await slow.prefetch(10);
await slow.consume("analytics", () => {}, { consumerTag: "report" }); // takes ten and acknowledges none

const browser = await Browser.start();
const open = async (address, { dark = false, tall = 800 } = {}) => {
  const page = await browser.page({ dark });
  await page.setViewportSize({ width: 1280, height: tall });
  await page.getByText("Queued messages").first().waitFor();
  await browser.go(page, address);
  return page;
};
const keep = async (page, name) => {
  await page.mouse.move(0, 0);
  await page.screenshot({ path: `${IMAGES}ui-${name}.png` });
  await page.context().close();
};
const HISTORY_MS = 65000; // a minute for the charts of one object, which the broker measures while somebody looks
const queue = await open("queues/shop/analytics");
await wait(HISTORY_MS);
await keep(queue, "queue");
const explain = await open("exchanges/shop/later");
await wait(HISTORY_MS);
await explain.getByLabel("Routing key to explain").fill("order.eu.created");
await explain.getByLabel("Size of the body in bytes").fill("4000");
await explain.getByLabel("Add a known header").selectOption("x-delay");
await explain.getByLabel("Value of header 1").fill("900000");
await explain.getByRole("button", { name: "Explain" }).click();
await explain.getByText("after 15m").waitFor();
await keep(explain, "explain");
const overview = await open("overview", { tall: 800 });
await wait(3000);
await keep(overview, "overview");
const topology = await open("topology/shop", { dark: true, tall: 620 });
await wait(1500);
await keep(topology, "topology");
const node = await open("nodes", { tall: 1110 });
await wait(1500);
await keep(node, "node");
const flame = await open("profile", { tall: 900 });
await flame.getByLabel("Seconds").selectOption("10");
await flame.getByRole("button", { name: "Take a profile" }).click();
await flame.getByRole("application", { name: /Flame graph/ }).waitFor();
await flame.getByLabel("Cut by").selectOption("vhost");
await flame.waitForTimeout(500);
await keep(flame, "flame");

clearInterval(load);
load = null;
await browser.stop();
await publisher.close();
await consumer.close();
await api("vhosts/shop", { method: "DELETE" });
