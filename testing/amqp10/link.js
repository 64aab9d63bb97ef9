// A client of AMQP 1.0 with promises, on rhea; and one of AMQP 0-9-1 beside it. AMQP_URL says where the broker is.
"use strict";
const assert = require("node:assert");
const rhea = require("rhea");
const amqplib = require("amqplib");

const url = new URL(process.env.AMQP_URL || "amqp://guest:guest@127.0.0.1:5672");
const WAIT_MS = 5000;

/** The first of some events; rejects after five seconds. */
function once(emitter, ...names) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no ${names.join(" or ")} within ${WAIT_MS} ms`)), WAIT_MS);
    for (const name of names) {
      emitter.once(name, (context) => {
        clearTimeout(timer);
        resolve({ name, context });
      });
    }
  });
}

async function connect(options = {}) {
  const container = rhea.create_container({ id: `test-${Math.random().toString(36).slice(2)}` });
  const connection = container.connect({
    host: url.hostname,
    port: Number(url.port || 5672),
    username: decodeURIComponent(url.username || "guest"),
    password: decodeURIComponent(url.password || "guest"),
    reconnect: false,
    ...options,
  });
  // An error that nobody waits for would end the process.
  for (const name of ["connection_error", "session_error", "sender_error", "receiver_error", "disconnected", "error"]) {
    container.on(name, () => {});
  }
  const { name } = await once(connection, "connection_open", "connection_error", "disconnected");
  if (name !== "connection_open") throw new Error(`not connected: ${name}: ${connection.error || ""}`);
  return connection;
}

/** A sender that is open, or the error with which the broker refused it. */
async function sender(connection, target, options = {}) {
  const link = connection.open_sender({ target, ...options });
  const { name } = await once(link, "sendable", "sender_error", "sender_close", "session_error");
  if (name !== "sendable") throw refusal(link);
  return link;
}

function refusal(link) {
  const error = link.error || link.session.error || {};
  return Object.assign(new Error(error.description || "detached"), { condition: error.condition });
}

/** Sends a message; the name of its outcome, with the error of a rejection. */
async function send(link, message) {
  const delivery = link.send(message);
  for (;;) {
    const { name, context } = await once(link, "accepted", "released", "rejected", "modified", "sender_error");
    if (name === "sender_error") throw refusal(link);
    if (context.delivery.id === delivery.id) {
      return { name, error: context.delivery.remote_state && context.delivery.remote_state.error };
    }
  }
}

/** A receiver without automatic credit whose deliveries are kept in `inbox`. */
async function receiver(connection, source, options = {}) {
  const link = connection.open_receiver({ source, credit_window: 0, autoaccept: false, ...options });
  const inbox = [];
  let wake = () => {};
  link.on("message", (context) => {
    inbox.push(context);
    wake();
  });
  const { name } = await once(link, "receiver_open", "receiver_error", "receiver_close", "session_error");
  if (name !== "receiver_open" || link.error) throw refusal(link);
  // A refused link is attached first and detached then.
  await new Promise((resolve) => setTimeout(resolve, 20));
  if (link.error) throw refusal(link);
  const next = async () => {
    const until = Date.now() + WAIT_MS;
    while (inbox.length === 0) {
      if (Date.now() > until) throw new Error(`no message within ${WAIT_MS} ms`);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, 100);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return inbox.shift();
  };
  return { link, inbox, next };
}

/** A channel of AMQP 0-9-1; `close` ends its connection. */
async function legacy() {
  const connection = await amqplib.connect(url.href);
  connection.on("error", () => {});
  const channel = await connection.createConfirmChannel();
  return { channel, close: () => connection.close() };
}

/** Expects an attach to be refused with a condition and a text. */
const refused = (promise, condition, description) =>
  assert.rejects(promise, (error) => {
    assert.deepStrictEqual([error.condition, error.message], [condition, description]);
    return true;
  });

let count = 0;
const fresh = (name) => `amqp10-${process.pid}-${name}-${count++}`;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

module.exports = { connect, sender, send, receiver, legacy, once, fresh, pause, refusal, refused, rhea };
