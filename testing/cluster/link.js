// One receiving link of AMQP 1.0 for tests in other languages: `node link.js QUEUE CREDIT`, the broker in AMQP_URL. Commands come by lines:
// `accept COUNT` settles the oldest deliveries, `credit COUNT` asks for more, `close` ends the connection. What happens is told by lines of JSON.
"use strict";
const readline = require("node:readline");
const { connect, receiver } = require("../amqp10/link.js");

const tell = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);

async function main() {
  const [queue, credit] = process.argv.slice(2);
  const connection = await connect();
  const { link } = await receiver(connection, `/queues/${queue}`);
  const held = [];
  link.on("message", ({ message, delivery }) => {
    held.push(delivery);
    tell({ body: String(message.body.content), failed: message.delivery_count || 0, again: !message.first_acquirer });
  });
  for (const name of ["receiver_error", "receiver_close"]) link.on(name, () => tell({ end: String(link.error) }));
  connection.on("disconnected", () => tell({ end: "disconnected" }));
  link.add_credit(Number(credit));
  tell({ attached: true });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, count] = line.split(" ");
    if (command === "accept") held.splice(0, Number(count)).forEach((delivery) => delivery.accept());
    else if (command === "credit") link.add_credit(Number(count));
    else break;
  }
  connection.on("connection_close", () => process.exit(0));
  connection.close();
}

main().catch((error) => {
  tell({ end: String(error) });
  process.exitCode = 1;
});
