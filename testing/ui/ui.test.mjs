// The web UI as people meet it: a real chromium against a real broker with objects in it.
//   MANAGEMENT_URL=http://127.0.0.1:15672 AMQP_URL=amqp://guest:guest@127.0.0.1:5672/%2F node --test testing/ui
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { AMQP, Browser, MANAGEMENT, PASSWORD, USER, amqp, api, rhea, until } from "./browser.mjs";

const VHOST = "ui test/ü";
const V = encodeURIComponent(VHOST);
const LONG_VHOST = `ui-${"long-name-of-a-tenant-".repeat(4)}`, LONG_QUEUE = `long-${"x".repeat(250)}`; // as long as names may be
let browser, connection, channel;
/** Policies may be missing in a broker that is being built; what needs them is then left out, and says so. */
const POLICIES = (await api("policies")).status === 200;

before(async () => {
  assert.equal((await fetch(`${MANAGEMENT}/`)).status, 200, "the web UI is served at all");
  assert.equal((await api(`vhosts/${V}`, { method: "PUT", body: {} })).status < 300, true);
  await api(`vhosts/${LONG_VHOST}`, { method: "PUT", body: {} });
  await api(`permissions/${V}/guest`, { method: "PUT", body: { configure: ".*", write: ".*", read: ".*" } });
  connection = await amqp.connect(AMQP.replace(/\/[^/]*$/, `/${V}`), { clientProperties: { connection_name: "ui-test" } });
  channel = await connection.createChannel();
  await channel.assertExchange("orders", "topic");
  await channel.assertExchange("orders.eu", "fanout");
  await channel.assertExchange("letters", "direct");
  await channel.assertExchange("events", "direct", { alternateExchange: "letters" });
  await channel.assertQueue("billing", { deadLetterExchange: "letters", messageTtl: 3600000 });
  await channel.assertQueue("shipping");
  await channel.assertQueue("dead");
  await channel.assertQueue(LONG_QUEUE, { messageTtl: 3600000, maxLength: 1000 });
  await channel.bindQueue(LONG_QUEUE, "letters", "k".repeat(255));
  await channel.bindQueue("billing", "orders", "order.*.created");
  await channel.bindQueue("shipping", "orders", "order.*.paid");
  await channel.bindQueue("dead", "letters", "billing");
  await channel.bindExchange("orders.eu", "orders", "order.eu.#");
  for (let i = 0; i < 50; i += 1) channel.publish("orders", "order.eu.created", Buffer.from(`{"id":${i}}`), { persistent: true, contentType: "application/json" });
  await channel.prefetch(10);
  await channel.consume("billing", () => {}, { consumerTag: "slow" }); // takes ten and acknowledges none
  for (const [name, body] of [["ui-policy", { pattern: "^ui-none", definition: { "max-length": 5 }, "apply-to": "queues", priority: 1 }]]) await api(`policies/${V}/${name}`, { method: "PUT", body });
  browser = await Browser.start();
});

after(async () => {
  await browser?.stop();
  await connection?.close();
  for (const name of [V, LONG_VHOST]) await api(`vhosts/${name}`, { method: "DELETE" });
});

/** Runs a test with a page of its own, and fails it for anything a console or a page complained of. */
function inBrowser(name, options, body = options) {
  test(name, async () => {
    browser.faults.length = 0;
    const page = await browser.page(options === body ? {} : options);
    try {
      await body(page);
      assert.deepEqual(browser.faults, []);
    } catch (error) {
      await browser.shot(page, `failed-${name.replace(/\W+/g, "-")}`);
      error.stack += `\nfaults: ${browser.faults.join("\n")}\npage: ${(await page.locator("body").innerText()).slice(0, 1500)}`;
      throw error;
    } finally {
      await page.context().close();
      await page.afterwards?.(); // an open page goes on asking as its user
    }
  });
}

inBrowser("a wrong password is refused in words, a right one lets in and stays over a reload", { login: false }, async (page) => {
  page.expected = /status of 401/;
  await browser.shot(page, "login");
  await browser.login(page, "guest", "wrong");
  await page.getByRole("alert").filter({ hasText: "password" }).waitFor();
  await browser.login(page);
  await page.getByText("Queued messages").first().waitFor();
  await page.reload();
  await page.getByText("Queued messages").first().waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByRole("button", { name: "Log in" }).waitFor();
  await page.reload();
  await page.getByRole("button", { name: "Log in" }).waitFor();
});

const PAGES = [
  ["overview", "Queued messages"], ["connections", "ui-test"], ["channels", "channel"], ["exchanges", "amq.topic"], ["queues", "billing"],
  [`queues/${V}/billing`, "Consumers"], [`queues/${V}/dead`, "Messages stay here until a consumer comes"], [`queues/${V}/${LONG_QUEUE}`, "Bindings to here"], [`exchanges/${V}/orders`, "order.*.created"], [`exchanges/${V}/letters`, "kkkkk"], [`exchanges/${V}/amq.default`, "The default exchange is bound to every queue"],
  [`topology/${V}`, "billing"], ["nodes", "Memory used"], ["users", "guest"], ["users/guest", "Permissions"], ["vhosts", VHOST], [`vhosts/${V}`, "Permissions"],
  ["consumers", "slow"], ["streams", "Streams"], ["cluster", "Feature flags"], ["shovels", "Shovels"],
  ...(POLICIES ? [["policies", "ui-policy"]] : []), ["limits", "Virtual host limits"], ["definitions", "Download definitions"], ["profile", "Take a profile"], ["log", "Log"], ["nowhere", "There is no such page"],
];

/** Opens all that is folded, so that forms are looked at, too. */
const unfold = (page) => page.evaluate(() => document.querySelectorAll("main details:not([open]) > summary").forEach((it) => it.click()));

/** Every page shows what it is for, no wider than the window, and axe-core finds nothing to complain of. */
async function everyPage(page) {
  for (const [address, text] of PAGES) {
    await browser.go(page, address);
    await page.getByText(text).filter({ visible: true }).first().waitFor().catch(() => assert.fail(`${address} does not show “${text}”`));
    await unfold(page);
    await page.waitForTimeout(300);
    assert.deepEqual(await browser.barriers(page), [], address);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, `${address} is wider than the window`);
  }
}

inBrowser("every page shows what it is for, without an error, and nobody is shut out", everyPage);
inBrowser("so it is in a narrow window and dark", { dark: true, wide: 400 }, everyPage);

inBrowser("in a narrow window the pages are behind a button", { wide: 400 }, async (page) => {
  await page.getByText("Queued messages").first().waitFor();
  assert.equal(await page.getByRole("navigation", { name: "Pages" }).isVisible(), false);
  await page.getByRole("button", { name: "Pages" }).click();
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Queues" }).click();
  await page.getByRole("heading", { name: "Queues", exact: true, level: 1 }).waitFor();
  await page.getByRole("navigation", { name: "Pages" }).waitFor({ state: "hidden" }); // it closes by itself
});

inBrowser("columns of a list are chosen, and stay chosen", async (page) => {
  await browser.go(page, "queues");
  await page.getByRole("button", { name: /^Columns/ }).click();
  await page.getByLabel("Memory", { exact: true }).check();
  await page.getByLabel("Ack", { exact: true }).uncheck();
  await page.keyboard.press("Escape");
  assert.equal(await page.getByRole("group", { name: "Columns" }).count(), 0);
  await page.reload();
  await page.getByRole("button", { name: "Memory" }).waitFor();
  assert.equal(await page.getByRole("columnheader", { name: "Ack", exact: true }).count(), 0);
});

inBrowser("a shovel is added, seen at work, and deleted", async (page) => {
  if ((await api("shovels")).status !== 200) return; // a broker without shovels
  await channel.assertQueue("shovelled");
  await page.getByLabel("Virtual host", { exact: true }).selectOption(VHOST);
  await browser.go(page, "shovels");
  await page.getByText("There are no shovels").waitFor();
  await page.getByText("Add a shovel").click();
  await page.getByLabel("Name of the shovel").fill("to dead");
  for (const [side, queue] of [["From", "shovelled"], ["To", "dead"]]) await page.getByRole("group", { name: side }).getByLabel("Its name").fill(queue);
  await page.getByRole("button", { name: "Add shovel" }).click();
  const row = page.getByRole("row").filter({ hasText: "to dead" });
  await row.getByText("running", { exact: true }).waitFor();
  channel.sendToQueue("shovelled", Buffer.from("x"));
  await row.getByRole("cell", { name: "1", exact: true }).waitFor();
  await row.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("There are no shovels").waitFor();
  await channel.deleteQueue("shovelled");
});

inBrowser("global parameters are set and deleted, and JSON has to be JSON", async (page) => {
  await browser.go(page, "cluster");
  const list = page.getByRole("region", { name: "Global parameters" });
  await list.getByLabel("Name of the global parameter").fill("ui-test");
  await list.getByLabel("Value as JSON").fill("{a}");
  await list.getByRole("button", { name: "Set parameter" }).click();
  await list.getByRole("alert").waitFor();
  await list.getByLabel("Value as JSON").fill('{"a": 1}');
  await list.getByRole("button", { name: "Set parameter" }).click();
  await list.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await until("the parameter to be gone", async () => (await api("global-parameters/ui-test")).status === 404);
});

inBrowser("health checks are run from the page of the node", async (page) => {
  await browser.go(page, "nodes");
  await page.getByText("Health checks").click();
  await page.getByRole("button", { name: "Run the checks" }).click();
  await page.getByRole("row").filter({ hasText: "No alarm is in effect" }).getByText("passed").waitFor();
});

inBrowser("when the broker goes, the page says so, and goes on when it is back", async (page) => {
  page.expected = /Failed to load resource|status of 502/;
  await page.getByText("Queued messages").first().waitFor();
  await page.getByLabel("Refresh").selectOption("1000");
  await page.route("**/api/**", (it) => it.abort());
  await page.getByText(/The broker does not answer, since \d\d:\d\d:\d\d/).waitFor();
  await page.unroute("**/api/**");
  await page.route("**/api/**", (it) => it.fulfill({ status: 502, body: "bad gateway" }));
  await page.reload();
  await page.getByText("The broker does not answer. This page keeps trying.").waitFor();
  await page.unroute("**/api/**");
  await page.getByText("Queued messages").first().waitFor();
  assert.equal(await page.getByText("The broker does not answer").count(), 0);
});

inBrowser("a broker that keeps its sockets open and says nothing is told from one that is slow", async (page) => {
  await page.getByText("Queued messages").first().waitFor();
  await page.getByLabel("Refresh").selectOption("1000");
  const held = [];
  await page.route("**/api/**", (it) => { held.push(it); }); // never answered
  await page.getByText(/The broker does not answer, since \d\d:\d\d:\d\d/).waitFor();
  await browser.shot(page, "silent");
  await page.unroute("**/api/**");
  await page.getByText("The broker does not answer").waitFor({ state: "detached" });
  assert.ok(held.length > 0);
});

inBrowser("several queues are purged and deleted together; on a phone the list begins with what matters", async (page) => {
  const own = await connection.createChannel();
  for (const name of ["bulk-1", "bulk-2", "bulk-3"]) { await own.assertQueue(name); own.sendToQueue(name, Buffer.from("x")); }
  await until("messages", async () => (await api(`queues/${V}/bulk-3`)).body.messages_ready === 1);
  await browser.go(page, `queues?name=bulk-`);
  await page.getByRole("heading", { name: /^3 queues/ }).waitFor();
  assert.equal(await page.getByRole("group", { name: "For the ticked queues" }).count(), 0);
  await page.getByLabel("Tick all queues on this page").check();
  const all = page.getByRole("group", { name: "For the ticked queues" });
  await all.getByText("3 ticked").waitFor();
  await browser.shot(page, "bulk");
  await all.getByRole("button", { name: "Purge" }).click();
  await page.getByRole("dialog").getByText("All 3 ready messages of bulk-1, bulk-2, bulk-3 are deleted").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Purge" }).click();
  await page.getByText("3 queues purged").waitFor();
  assert.equal((await api(`queues/${V}/bulk-2`)).body.messages_ready, 0);
  await page.getByLabel("Tick bulk-1").check();
  await page.getByLabel("Tick bulk-3").check();
  await all.getByRole("button", { name: "Delete" }).click();
  const sure = page.getByRole("dialog").getByRole("button", { name: "Delete" });
  assert.equal(await sure.isDisabled(), true);
  await page.getByRole("dialog").getByRole("textbox").fill("2");
  await sure.click();
  await page.getByText("2 queues deleted").waitFor();
  assert.deepEqual([(await api(`queues/${V}/bulk-1`)).status, (await api(`queues/${V}/bulk-2`)).status], [404, 200]);
  await page.setViewportSize({ width: 390, height: 800 });
  await until("the order of a narrow list", async () => (await page.locator("thead th").allInnerTexts()).map((text) => text.replace(/\W/g, "")).slice(1, 4).join() === "Name,Ready,Unacked");
  await browser.shot(page, "phone");
  await own.deleteQueue("bulk-2");
});

for (const [tag, sees, hides] of [["management", ["Queues", "Virtual hosts"], ["Definitions", "Nodes", "Log", "Profiling", "Users", "Policies", "Shovels"]], ["policymaker", ["Policies", "Limits", "Shovels"], ["Nodes", "Users", "Profiling"]], ["monitoring", ["Nodes", "Log", "Shovels"], ["Users", "Profiling", "Policies"]]]) {
  inBrowser(`a user with the tag ${tag} sees the pages for it and nothing that fails`, { login: false }, async (page) => {
    const name = `ui-${tag}`;
    await api(`users/${name}`, { method: "PUT", body: { password: "look", tags: tag } });
    await api(`permissions/${V}/${name}`, { method: "PUT", body: { configure: ".*", write: ".*", read: ".*" } });
    await browser.login(page, name, "look");
    await page.getByText("Queued messages").first().waitFor();
    const nav = page.getByRole("navigation", { name: "Pages" });
    for (const label of sees) assert.equal(await nav.getByRole("link", { name: new RegExp(`^${label}[\\s\\d,]*$`) }).count(), 1, label);
    for (const label of hides) assert.equal(await nav.getByRole("link", { name: new RegExp(`^${label}[\\s\\d,]*$`) }).count(), 0, label);
    for (const link of await nav.getByRole("link").all()) {
      await link.click();
      await page.waitForTimeout(400);
      assert.equal(await page.getByText("may not see").count(), 0, await link.innerText());
    }
    await browser.go(page, "profile");
    await page.getByText("This page is for users with the tag “administrator” only").waitFor();
    await browser.go(page, "limits");
    await page.getByText("No limits that you may see").first().waitFor();
    assert.equal(await page.getByRole("button", { name: "Set limit" }).count(), 0);
    if (tag !== "policymaker") {
      await browser.go(page, "policies");
      await page.getByRole("region", { name: "Policies", exact: true }).waitFor();
      assert.equal(await page.getByText("Add or change").count(), 0);
    }
    page.afterwards = () => api(`users/${name}`, { method: "DELETE" });
  });
}

const EVERYWHERE = [...PAGES.map(([address]) => address), "topology", "vhosts/%2F", `queues/${V}/no such queue`];

for (const tag of ["management", "policymaker", "monitoring", "administrator"]) {
  inBrowser(`with the tag ${tag} and no permissions, no page says an untruth, asks in vain or offers what cannot work`, { login: false }, async (page) => {
    const name = `ui-lost-${tag}`, all = tag === "administrator";
    await api(`users/${name}`, { method: "PUT", body: { password: "look", tags: tag } });
    await browser.login(page, name, "look");
    if (!all) await page.getByText("no permissions in any virtual host").waitFor();
    for (const address of EVERYWHERE.filter((it) => !all || !it.endsWith("no such queue"))) {
      await browser.go(page, address);
      await page.waitForTimeout(250);
      await unfold(page);
      if (/^(queues|exchanges|consumers|topology|shovels|policies|overview)/.test(address) && !all) for (const lie of ["There are no", "All queues are empty", "Nobody consumes", "None yet"]) assert.equal(await page.getByText(lie).count(), 0, `${address} says “${lie}”`);
      for (const deed of ["Add queue", "Add exchange", "Add shovel", "Purge", "Delete exchange", "Publish message", "Get messages", "Bind", "Unbind", "Move"]) assert.equal(await page.getByRole("button", { name: deed, exact: true }).count(), 0, `${address} offers “${deed}”`);
      assert.deepEqual(browser.faults, [], address); // what was refused, chromium logs
    }
    await browser.go(page, all ? `queues/${V}/billing` : "queues");
    await page.getByText(all ? "Not available to you" : "No queues that you may see").waitFor();
    page.afterwards = () => api(`users/${name}`, { method: "DELETE" });
  });
}

inBrowser("what a user may not do is not offered, and the page says what it would take", { login: false }, async (page) => {
  await api("users/ui-reader", { method: "PUT", body: { password: "look", tags: "monitoring" } });
  await api(`permissions/${V}/ui-reader`, { method: "PUT", body: { configure: "^own-", write: "^$", read: ".*" } });
  await browser.login(page, "ui-reader", "look");
  await browser.go(page, "queues");
  await page.getByText(/In 1 of \d+ virtual hosts/).waitFor();
  await page.getByText("Add a queue").click();
  const form = page.locator("form").filter({ hasText: "Auto-delete" });
  assert.deepEqual(await form.getByLabel(/^Vhost/).locator("option").allInnerTexts(), [VHOST]);
  await form.getByLabel("Name", { exact: true }).fill("another");
  assert.equal(await form.getByRole("button", { name: "Add queue" }).isDisabled(), true);
  await form.getByText("only names that match ^own-").waitFor();
  await form.getByLabel("Name", { exact: true }).fill("own-1");
  assert.equal(await form.getByRole("button", { name: "Add queue" }).isDisabled(), false);
  await browser.go(page, `queues/${V}/billing`);
  await page.getByText("deleting (needs the permission “configure” on this queue)").waitFor();
  assert.deepEqual([await page.getByRole("button", { name: "Purge" }).count(), await page.getByRole("button", { name: "Delete", exact: true }).count()], [1, 0]);
  await browser.go(page, `exchanges/${V}/letters`); // nothing may be written to, so there is nothing to bind it to
  await page.getByText("binding from here (needs the permission “write” on the queues and exchanges that it leads to)").waitFor();
  assert.deepEqual([await page.getByRole("button", { name: "Bind", exact: true }).count(), await page.getByRole("button", { name: "Unbind" }).count()], [0, 0]);
  await browser.go(page, `vhosts/${V}`); // the route of one vhost is for administrators
  await page.getByText("Default queue type").waitFor();
  await browser.go(page, "connections");
  await page.getByRole("link", { name: "ui-test" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Close" }).count(), 0, "monitors look only");
  page.afterwards = () => api("users/ui-reader", { method: "DELETE" });
});

inBrowser("monitors find as many queues and exchanges counted beside the pages as are on them", { login: false }, async (page) => {
  await channel.assertQueue("counted");
  await api("queues/%2F/ui-elsewhere", { method: "PUT", body: {} });
  await api("users/ui-counter", { method: "PUT", body: { password: "look", tags: "monitoring" } });
  await api(`permissions/${V}/ui-counter`, { method: "PUT", body: { configure: "", write: "", read: ".*" } });
  await browser.login(page, "ui-counter", "look");
  const nav = page.getByRole("navigation", { name: "Pages" });
  for (const [kind, label] of [["queues", "Queues"], ["exchanges", "Exchanges"]]) {
    const here = (await api(`${kind}/${V}`)).body.length, all = (await api(kind)).body.length;
    assert.ok(here < all);
    await nav.getByRole("link", { name: new RegExp(`^${label}\\s*${here}$`) }).waitFor();
    await page.locator("a.tile").filter({ hasText: new RegExp(`^${label}\\s*${here}$`) }).waitFor();
  }
  await page.getByText("those of the whole broker").waitFor();
  page.afterwards = () => Promise.all(["users/ui-counter", "queues/%2F/ui-elsewhere"].map((address) => api(address, { method: "DELETE" })));
  await channel.deleteQueue("counted");
});

inBrowser("policymakers see what shovels are told to do, without passwords, and add and delete them", { login: false }, async (page) => {
  if ((await api("shovels")).status !== 200) return; // a broker without shovels
  await channel.assertQueue("policed");
  await api("users/ui-policer", { method: "PUT", body: { password: "look", tags: "policymaker" } });
  await api(`permissions/${V}/ui-policer`, { method: "PUT", body: { configure: ".*", write: ".*", read: ".*" } });
  const value = { "src-uri": `${AMQP.replace(/\/[^/]*$/, "")}/${V}`, "src-queue": "policed", "dest-uri": `amqp:///${V}`, "dest-exchange": "letters", "dest-exchange-key": "k" };
  await api(`parameters/shovel/${V}/kept`, { method: "PUT", body: { value } });
  await browser.login(page, "ui-policer", "look");
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Shovels" }).click();
  const row = page.getByRole("row").filter({ hasText: "kept" });
  await row.getByText("queue policed").waitFor();
  await row.getByText("exchange letters, key k").waitFor();
  assert.doesNotMatch(await row.innerText(), /guest/);
  await page.getByText("Add a shovel").click();
  await page.getByLabel("Name of the shovel").fill("made");
  for (const side of ["From", "To"]) await page.getByRole("group", { name: side }).getByLabel("Its name").fill("policed");
  await page.getByRole("button", { name: "Add shovel" }).click();
  await page.getByRole("row").filter({ hasText: "made" }).waitFor();
  for (const name of ["made", "kept"]) {
    await page.getByRole("row").filter({ hasText: name }).getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText(`Shovel ${name} is gone`).waitFor();
  }
  page.afterwards = () => api("users/ui-policer", { method: "DELETE" });
  await channel.deleteQueue("policed");
});

inBrowser("an exclusive queue is its connection's: the page offers nothing that the broker would refuse", async (page) => {
  const { queue } = await channel.assertQueue("", { exclusive: true });
  await browser.go(page, `queues/${V}/${encodeURIComponent(queue)}`);
  await page.getByText("only the connection that declared it").waitFor();
  for (const deed of ["Purge", "Delete", "Bind", "Get messages"]) assert.equal(await page.getByRole("button", { name: deed, exact: true }).count(), 0, deed);
  await page.getByText("Publish a message").click();
  await page.getByRole("button", { name: "Publish message" }).click();
  await page.getByText("Published and routed").waitFor();
  await channel.deleteQueue(queue);
});

inBrowser("a connection of AMQP 1.0 shows its sessions and links", async (page) => {
  const { hostname, port, username, password } = new URL(AMQP);
  const container = rhea.create_container({ id: "ui-links" });
  const client = container.connect({ host: hostname, port: Number(port || 5672), hostname: `vhost:${VHOST}`, username, password, reconnect: false });
  try {
    client.open_receiver({ name: "ui-in", source: "/queues/dead", credit_window: 0 }).add_credit(7);
    client.open_sender({ name: "ui-out", target: "/exchanges/orders/key" });
    const found = await until("the connection is listed with its links", async () => {
      const { body } = await api("connections");
      const one = body.find((it) => it.protocol === "AMQP 1-0" && it.container_id === "ui-links");
      const sessions = one && (await api(`connections/${encodeURIComponent(one.name)}/sessions`)).body;
      return sessions?.[0]?.incoming_links?.length && sessions[0].outgoing_links.length && one;
    });
    await browser.go(page, `connections/${encodeURIComponent(found.name)}`);
    const row = (name) => page.getByRole("row").filter({ hasText: name });
    await row("ui-in").getByText("to client").waitFor();
    assert.match(await row("ui-in").textContent(), /\/queues\/dead\s*(7\s*0|6\s*1)/);
    assert.match(await row("ui-out").textContent(), /from client\s*\/exchanges\/orders\/key/);
  } finally {
    client.close();
  }
});

inBrowser("connections and channels lead to their details", async (page) => {
  await browser.go(page, "connections");
  await page.getByRole("link", { name: "ui-test" }).click();
  await page.getByText("The client's own description").waitFor();
  await page.getByRole("link", { name: /\(1\)$/ }).click();
  await page.getByRole("link", { name: "billing" }).waitFor();
});

inBrowser("a queue is added, published to, read, purged and deleted", async (page) => {
  await browser.go(page, "queues");
  await page.getByLabel("Virtual host", { exact: true }).selectOption(VHOST);
  await page.getByText("Add a queue").click();
  const form = page.locator("form").filter({ hasText: "Auto-delete" });
  await form.getByLabel("Name", { exact: true }).fill("made here/1");
  await form.getByLabel(/^Type(?! of)/).selectOption("classic");
  await form.getByRole("button", { name: "Add argument" }).click();
  await form.getByLabel("Name of argument 1").fill("x-max-length");
  await form.getByLabel("Value of argument 1").fill("1000");
  await form.getByRole("button", { name: "Add queue" }).click();
  await page.getByRole("heading", { name: "made here/1" }).waitFor();
  const made = await api(`queues/${V}/${encodeURIComponent("made here/1")}`);
  assert.equal(made.body.arguments["x-max-length"], 1000);

  await page.getByText("Publish a message").click();
  await page.getByLabel("Payload", { exact: true }).fill("{\"hello\": \"wörld\"}");
  await page.getByRole("button", { name: "Publish message" }).click();
  await page.getByText("Published and routed").waitFor();
  await page.getByText("Get messages", { exact: true }).first().click();
  await page.getByRole("button", { name: "Get messages" }).click();
  await page.getByText("wörld").last().waitFor();

  await page.getByRole("button", { name: "Purge" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Purge" }).click();
  await page.getByText("is empty").waitFor();
  const empty = await until("the purge", async () => (await api(`queues/${V}/${encodeURIComponent("made here/1")}`)).body.messages === 0);
  assert.ok(empty);

  await page.getByRole("button", { name: "Delete", exact: true }).click();
  const dialog = page.getByRole("dialog");
  assert.equal(await dialog.getByRole("button", { name: "Delete" }).isDisabled(), true, "the name has to be typed first");
  await dialog.getByLabel("Type made here/1 to go on").fill("made here/1");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("Queue made here/1 deleted").waitFor();
  assert.equal((await api(`queues/${V}/${encodeURIComponent("made here/1")}`)).status, 404);
});

/** Moves twenty messages from one new queue to another, by the page; gives the name of the second. */
async function moveTwenty(page, way, told) {
  const [from, to] = [`to move by ${way}`, `moved by ${way}`];
  await channel.assertQueue(from);
  await channel.assertQueue(to);
  for (let i = 0; i < 20; i += 1) channel.sendToQueue(from, Buffer.from(`m${i}`));
  const ready = async (queue) => (await api(`queues/${V}/${encodeURIComponent(queue)}`)).body.messages_ready;
  await until("the messages", async () => (await ready(from)) === 20);
  await browser.go(page, `queues/${V}/${encodeURIComponent(from)}`);
  await page.getByText("Move messages").click();
  await page.getByLabel(/^Move 20 ready messages/).fill(to);
  await page.getByRole("button", { name: "Move", exact: true }).click();
  await page.getByText(told(to)).waitFor();
  await until("the moved messages", async () => (await ready(to)) === 20);
  const first = await channel.get(to, { noAck: true });
  assert.equal(first.content.toString(), "m0");
}

inBrowser("messages move to another queue by a shovel, which is gone then", async (page) => {
  await moveTwenty(page, "shovel", (to) => `Moving 20 messages to ${to}`);
  await until("the end of the shovel", async () => (await api(`parameters/shovel/${V}`)).body.length === 0);
});

(POLICIES ? inBrowser : test.skip)("where there are no shovels, a policy moves messages, and is gone then", async (page) => {
  page.expected = /status of 404/;
  await page.route("**/api/shovels/**", (route) => route.fulfill({ status: 404, contentType: "application/json", body: "{}" }));
  await moveTwenty(page, "policy", (to) => `20 messages moved to ${to}`);
  assert.equal((await api(`policies/${V}`)).body.length, 1);
});

inBrowser("an exchange is bound and unbound, and what cannot be done is said", async (page) => {
  await browser.go(page, `exchanges/${V}/events`);
  const from = page.getByRole("region", { name: "Bindings from here" });
  await from.getByLabel("Name of the destination").fill("shipping");
  await from.getByLabel("Routing key").fill("a/b #1");
  await from.getByRole("button", { name: "Bind", exact: true }).click();
  await from.getByText("a/b #1").waitFor();
  await from.getByRole("button", { name: "Unbind" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Unbind" }).click();
  await page.getByText("Binding removed").waitFor();
  page.expected = /status of (40[04]|500)/;
  await from.getByLabel("Name of the destination").fill("no such queue");
  await from.getByRole("button", { name: "Bind", exact: true }).click();
  await page.locator(".toast.bad").waitFor();
});

inBrowser("users get tags and permissions, vhosts come and go", async (page) => {
  await browser.go(page, "users");
  await page.getByText("Add a user").click();
  await page.getByLabel("Name", { exact: true }).fill("ui-user");
  await page.getByLabel(/^Password/).fill("secret");
  await page.getByRole("checkbox", { name: "monitoring" }).check();
  await page.getByRole("button", { name: "Add user" }).click();
  await page.getByText("No permissions").waitFor();
  await page.getByRole("button", { name: "Set permission" }).click();
  await page.getByText("Permission set").waitFor();
  assert.equal((await api("users/ui-user/permissions")).body.length, 1);
  await page.getByRole("button", { name: "Delete user" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete user" }).click();
  await until("the user to be gone", async () => (await api("users/ui-user")).status === 404);
});

inBrowser("a user who may only look at a vhost sees that, and is told what is not for them", { login: false }, async (page) => {
  await api("users/ui-guest", { method: "PUT", body: { password: "look", tags: "management" } });
  await api(`permissions/${V}/ui-guest`, { method: "PUT", body: { configure: "", write: "", read: ".*" } });
  await browser.login(page, "ui-guest", "look");
  await page.getByText("Queued messages").first().waitFor();
  assert.equal(await page.getByRole("link", { name: "Users" }).count(), 0);
  await browser.go(page, "queues");
  await page.getByRole("link", { name: "billing" }).waitFor();
  await browser.go(page, "users");
  await page.getByText("for users with the tag “administrator” only").waitFor();
  await page.getByRole("button", { name: "Log out" }).waitFor();
  page.afterwards = () => api("users/ui-guest", { method: "DELETE" });
});

(POLICIES ? inBrowser : test.skip)("a policy is added and deleted", async (page) => {
  await browser.go(page, "policies");
  const list = page.getByRole("region", { name: "Policies", exact: true });
  await list.getByText("Add or change").click();
  await list.getByLabel("Name", { exact: true }).fill("from-ui");
  await list.getByLabel(/^Pattern/).fill("^nothing");
  await list.getByLabel("Add a known setting").selectOption("max-length");
  await list.getByText("At most so many ready messages").waitFor();
  await list.getByLabel("Value of setting 1").fill("seven");
  await list.getByRole("button", { name: "Save" }).click();
  assert.equal(await list.getByLabel("Value of setting 1").evaluate((it) => it.validity.patternMismatch), true, "a number has to be one");
  await list.getByLabel("Value of setting 1").fill("7");
  await list.getByRole("button", { name: "Save" }).click();
  await page.getByText("from-ui applies now").waitFor();
  const row = list.getByRole("row").filter({ hasText: "from-ui" });
  await row.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("from-ui no longer applies").waitFor();
});

inBrowser("the keyboard finds any object, and lists sort and go on by keyboard", async (page) => {
  await page.getByText("Queued messages").first().waitFor();
  await page.keyboard.press("/");
  await page.getByRole("combobox", { name: "Find anything" }).fill("shipp");
  await page.getByRole("option", { name: /shipping/ }).waitFor();
  await browser.shot(page, "search");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "shipping" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Find anything" }).fill("no such thing anywhere");
  await page.getByText("Nothing is called").waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.getByRole("dialog").count(), 0);
  await browser.go(page, "queues");
  await page.getByRole("button", { name: /^Name/ }).focus();
  await page.keyboard.press("Enter");
  await page.locator("th[aria-sort=descending]").waitFor();
});

inBrowser("the queue's page says why a consumer is not served", async (page) => {
  await browser.go(page, `queues/${V}/billing`);
  const consumers = page.getByRole("region", { name: "Consumers" });
  await consumers.getByText("slow").first().waitFor();
  await browser.shot(page, "queue");
  const known = await api(`explain/delivery?vhost=${V}&queue=billing`);
  if (known.status === 200) await consumers.getByText("prefetch full").waitFor();
});

inBrowser("an exchange's page says where a message would go, what nearly matched and why not", async (page) => {
  if ((await api(`explain/route?vhost=${V}&exchange=orders&routing_key=x`)).status !== 200) return; // not Warren
  await browser.go(page, `exchanges/${V}/orders`);
  const panel = page.getByRole("region", { name: "Where would a message go?" });
  await panel.getByLabel("Routing key to explain").fill("order.eu.created");
  await panel.getByRole("button", { name: "Explain" }).click();
  await panel.getByText("Goes to 1 queue").waitFor();
  await panel.getByText("word 3 is").waitFor();
  await browser.shot(page, "explain");
  await panel.getByLabel("Routing key to explain").fill("nothing");
  await panel.getByRole("button", { name: "Explain" }).click();
  await panel.getByText("Goes nowhere").waitFor();
});

inBrowser("it also says which queues do not keep the message, and which get it later", async (page) => {
  if ((await api(`explain/route?vhost=${V}&exchange=orders&routing_key=x`)).status !== 200) return; // not Warren
  const own = await connection.createChannel();
  await own.assertExchange("later", "x-delayed-message", { arguments: { "x-delayed-type": "direct" } });
  await own.assertQueue("keeps");
  await own.assertQueue("small", { arguments: { "x-max-length-bytes": 100, "x-overflow": "reject-publish" } });
  await own.assertQueue("hasty", { messageTtl: 0, deadLetterExchange: "letters" });
  for (const queue of ["keeps", "small", "hasty"]) await own.bindQueue(queue, "later", "k");
  await own.sendToQueue("small", Buffer.alloc(100));
  await until("the message", async () => (await api(`queues/${V}/small`)).body.messages === 1);
  await browser.go(page, `exchanges/${V}/later`);
  const panel = page.getByRole("region", { name: "Where would a message go?" });
  await panel.getByLabel("Routing key to explain").fill("k");
  await panel.getByLabel("Size of the body in bytes").fill("200");
  await panel.getByRole("button", { name: "Explain" }).click();
  await panel.getByText("Goes to 3 queues, of which 1 keeps it").waitFor();
  await panel.getByText(/small refuses it: the queue is as long as its limit allows/).waitFor();
  await panel.getByText(/hasty lets it expire at once.*dead-letter exchange/).waitFor();
  await panel.getByLabel("Add a known header").selectOption("x-delay");
  await panel.getByLabel("Value of header 1").fill("90000");
  await panel.getByRole("button", { name: "Explain" }).click();
  await panel.getByText("after 1m 30s keeps").waitFor();
  await browser.shot(page, "explain-kept");
  for (const queue of ["keeps", "small", "hasty"]) await own.deleteQueue(queue);
  await own.deleteExchange("later");
  await own.close();
});

inBrowser("the log is shown as it comes, and filtered", async (page) => {
  if ((await api("logs")).status !== 200) return; // not Warren
  const refused = await connection.createChannel();
  refused.on("error", () => {});
  await refused.checkQueue("a queue that is missing").catch(() => {});
  await browser.go(page, "log");
  const log = page.getByRole("log");
  await log.getByText("a queue that is missing").first().waitFor();
  const before = (await api("logs?limit=1")).body.lines[0].seq;
  await browser.shot(page, "log");
  await page.getByLabel("Filter log lines").fill("no line says this");
  await log.getByText("No line matches").waitFor();
  assert.deepEqual((await api(`logs?after=${before + 1000000}`)).body.lines, []);
  assert.equal((await api("logs?after=x")).status, 400);
});

inBrowser("the picture shows exchanges, queues and what leads where; Tab reaches them", async (page) => {
  await browser.go(page, `topology/${V}`);
  await page.getByRole("link", { name: "queue billing" }).waitFor();
  await page.locator("path.edge.dead").waitFor({ state: "attached" });
  assert.equal(await page.locator("path.edge.dead").count(), 1);
  assert.equal(await page.locator("path.edge.alt").count(), 1);
  await browser.shot(page, "topology");
  await page.getByRole("link", { name: "exchange orders", exact: true }).focus();
  await page.locator("path.edge.lit").first().waitFor({ state: "attached" }); // a level line has no height
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "orders", exact: true }).waitFor();
  await page.getByRole("link", { name: "Picture" }).click();
  await page.getByRole("link", { name: "queue billing" }).waitFor();
});

inBrowser("hundreds of queues of one exchange are one box in the picture until somebody wants to see them, and a search finds one", async (page) => {
  const own = await connection.createChannel();
  await own.assertExchange("tenants", "topic");
  const common = `tenant-with-a-${"very-".repeat(12)}long-name-`; // 120 such names do not fit into one address
  const names = Array.from({ length: 120 }, (_, i) => `${common}${String(i).padStart(3, "0")}-orders`);
  const others = Array.from({ length: 400 }, (_, i) => `a-queue-without-bindings-${i}`); // the page asks for queues by name when there are over 500
  await Promise.all([...names, ...others].map((name) => own.assertQueue(name)));
  own.sendToQueue(names[119], Buffer.from("x"));
  await Promise.all(names.map((name, i) => own.bindQueue(name, "tenants", `tenant.${i}.#`)));
  await browser.go(page, `topology/${V}`);
  const box = page.getByRole("button", { name: "Show the 120 queues of tenants" });
  await box.waitFor();
  assert.equal(await page.getByRole("link", { name: /^queue tenant-/ }).count(), 0);
  await browser.shot(page, "topology-folded");
  await box.click();
  await page.getByRole("link", { name: `queue ${names[0]}` }).waitFor();
  assert.equal(await page.getByRole("link", { name: /^queue tenant-/ }).count(), 120);
  await page.getByText("…000-orders", { exact: true }).waitFor(); // what most names begin with stands beside the picture, once
  await page.getByText(`… is ${common}`).waitFor();
  await page.getByRole("link", { name: `queue ${names[119]}` }).getByText(/^1 message/).waitFor();
  await page.getByLabel("Find in the picture").fill("-077-");
  await until("one queue left", async () => (await page.getByRole("link", { name: /^queue / }).count()) === 1);
  await page.getByRole("link", { name: "exchange tenants" }).waitFor();
  assert.equal(await page.locator("path.edge title").first().textContent(), `tenants → ${names[77]}: tenant.77.#`);
  await browser.shot(page, "topology-found");
  await page.getByLabel("Find in the picture").fill("nothing is called so");
  await page.getByText("Nothing here is called").waitFor();
  await Promise.all([...names, ...others].map((name) => own.deleteQueue(name)));
  await own.deleteExchange("tenants");
});

const dark = (page) => page.evaluate(() => { const [r, g, b] = getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g).map(Number); return r + g + b < 200; });

inBrowser("dark follows the system, and can be chosen against it", { dark: true }, async (page) => {
  await page.getByText("Queued messages").first().waitFor();
  assert.equal(await dark(page), true);
  await page.getByLabel("Theme").selectOption("light");
  assert.equal(await dark(page), false);
  await page.getByLabel("Theme").selectOption("dark");
  await page.reload();
  await page.getByText("Queued messages").first().waitFor();
  assert.equal(await dark(page), true, "the choice outlives a reload");
  await page.waitForTimeout(500);
  await browser.shot(page, "overview-dark");
});

inBrowser("a picture of a vhost whose list of bindings is too long is made of what each exchange tells", async (page) => {
  await page.route(`**/api/bindings/${V}`, (it) => it.fulfill({ json: Array.from({ length: 60000 }, (_, i) => ({ source: "", vhost: VHOST, destination: `many ${i}`, destination_type: "queue", routing_key: `many ${i}`, arguments: {} })) }));
  await browser.go(page, `topology/${V}`);
  await page.getByRole("link", { name: "queue billing" }).waitFor();
});

inBrowser("10,000 queues: the broker pages, sorts and filters, and the page stays small", async (page) => {
  const names = Array.from({ length: 10000 }, (_, i) => `many-${String(i).padStart(5, "0")}`);
  const own = await connection.createChannel();
  for (let i = 0; i < names.length; i += 500) await Promise.all(names.slice(i, i + 500).map((name) => own.assertQueue(name, { durable: false, autoDelete: false })));
  const sizes = [];
  page.on("response", async (answer) => { if (/\/api\/queues/.test(answer.url())) sizes.push((await answer.body().catch(() => Buffer.alloc(0))).length); });
  await page.getByLabel("Virtual host", { exact: true }).selectOption(VHOST);
  const begin = Date.now();
  await browser.go(page, "queues");
  await page.getByRole("heading", { name: /^10,0\d\d queues$/ }).waitFor();
  assert.ok(Date.now() - begin < 5000, `the list took ${Date.now() - begin} ms`);
  assert.ok(await page.locator("tbody tr").count() <= 100);
  await page.getByRole("button", { name: "Last" }).click();
  await page.getByRole("link", { name: "many-09999" }).waitFor();
  await page.getByLabel("Filter queues by name").fill("many-0123");
  await page.getByRole("heading", { name: /^10 queues/ }).waitFor();
  await page.getByLabel("regex").check();
  await page.getByLabel("Filter queues by name").fill("^many-000[0-4]0$");
  await page.getByRole("heading", { name: /^5 queues/ }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Find anything" }).fill("many-04321");
  await page.getByRole("option", { name: /many-04321/ }).waitFor();
  await page.keyboard.press("Escape");
  assert.ok(Math.max(...sizes) < 300000, `an answer had ${Math.max(...sizes)} bytes`);
  await own.close();
});

const PROFILE = {
  unit: "nanoseconds", watched: "cpu", began_ms: 1790000000000, wall_ms: 10000, samples: 100, dropped: 0, label_names: ["protocol", "vhost"],
  names: ["net::connection::run", "protocols::amqp091::session::Session::read", "broker::data::publish", "commitlog::log::writer::run", "[kernel] fdatasync"],
  stacks: [
    { frames: [0, 1, 2], labels: ["amqp091", "/"], value: 40e6, count: 40 }, { frames: [0, 1], labels: ["amqp091", "shop"], value: 10e6, count: 10 },
    { frames: [0], labels: ["amqp091", null], value: 20e6, count: 20 }, { frames: [3, 4], labels: [null, null], value: 30e6, count: 30 },
  ],
};

inBrowser("a profile, the history and the kept ones of another node of a cluster are asked for by its name", async (page) => {
  const asked = new Set();
  await page.route("**/api/nodes?columns=*", (it) => it.fulfill({ json: [{ name: "n1@a", running: true }, { name: "n2@b", running: true }, { name: "n3@c", running: false }] }));
  await page.route("**/api/profile/**", (it) => {
    const url = new URL(it.request().url());
    const what = url.pathname.split("/").at(-1);
    asked.add(`${what} ${url.searchParams.get("node")}`);
    return it.fulfill({ json: { cpu: PROFILE, state: { continuous: true, minutes: 5, heap: false }, captures: [{ number: 1, at_ms: 1, samples: 9, reason: "slow there" }] }[what] });
  });
  await browser.go(page, "profile");
  const choice = page.getByRole("combobox", { name: "Node to profile" });
  assert.deepEqual(await choice.getByRole("option").allTextContents(), ["this node", "n1@a", "n2@b"]);
  await choice.selectOption("n2@b");
  await page.getByText("Kept when something was slow on n2@b").waitFor();
  await page.getByRole("button", { name: "Take a profile" }).click();
  await page.getByRole("combobox", { name: "Profile shown" }).getByRole("option", { name: /CPU 10 s of n2@b/ }).waitFor({ state: "attached" });
  for (const it of ["cpu n2@b", "state n2@b", "captures n2@b"]) assert(asked.has(it), `${it} is not among ${[...asked]}`);
});

inBrowser("a flame graph is walked by keyboard, cut by label, searched, and compared with another", async (page) => {
  let taken = 0;
  await page.route("**/api/profile/cpu?*", (it) => {
    const answer = structuredClone(PROFILE);
    taken += 1;
    if (taken === 2) answer.stacks[3].value = 60e6;
    return it.fulfill({ json: answer });
  });
  await browser.go(page, "profile");
  await page.getByRole("button", { name: "Take a profile" }).click();
  const graph = page.getByRole("application", { name: /Flame graph/ });
  await page.getByText("1.0 % of one processor").waitFor();
  const shop = page.getByRole("region", { name: "For whom" }).getByRole("row").filter({ has: page.getByRole("link", { name: "shop" }) });
  await shop.getByText("10 %", { exact: true }).waitFor();
  await shop.getByRole("button", { name: "Show only" }).click();
  await page.getByText("10 ms in all").waitFor();
  await shop.getByRole("button", { name: "Show all" }).click();
  await graph.focus();
  await page.keyboard.press("ArrowDown");
  await page.getByText("30 ms, 30.0 % of all").waitFor();
  await page.keyboard.press("ArrowRight");
  await page.getByText("70 ms, 70.0 % of all").waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Show all" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByLabel("Highlight functions").fill("kernel");
  await page.getByText("30.0 % in what matches").waitFor();
  await page.getByLabel("Only this label").selectOption("vhost");
  await page.getByLabel("Value of the label").selectOption("shop");
  await page.getByText("10 ms in all").waitFor(); // what was chosen is not in this graph
  await page.getByLabel("Value of the label").selectOption("");
  await page.getByLabel("Cut by").selectOption("vhost");
  await page.getByLabel("Highlight functions").fill("(no vhost)");
  await page.getByText("50.0 % in what matches").waitFor();
  await page.getByLabel("Highlight functions").fill("");
  const [kept] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "folded" }).click()]);
  const lines = (await readFile(await kept.path(), "utf8")).trim().split("\n");
  assert.ok(lines.includes("vhost /;net::connection::run;protocols::amqp091::session::Session::read;broker::data::publish 40000000"), lines.join("\n"));
  assert.equal(lines[0], "(values are nanoseconds of running) 0", "as in the files of the command");
  const [written] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "JSON" }).click()]);
  const document = JSON.parse(await readFile(await written.path(), "utf8"));
  assert.deepEqual(Object.keys(document).sort(), Object.keys(PROFILE).sort(), "what `profile diff` reads");
  assert.deepEqual([document.unit, document.watched, document.stacks.reduce((sum, it) => sum + it.value, 0)], ["nanoseconds", "cpu", 100e6]);
  assert.ok(document.stacks.some((it) => it.frames.map((frame) => document.names[frame]).join() === "vhost shop,net::connection::run,protocols::amqp091::session::Session::read"));
  const [drawn] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "SVG" }).click()]);
  assert.match(await readFile(await drawn.path(), "utf8"), /^<svg .*<title>vhost shop: 10 ms<\/title>.*<\/svg>$/);
  await page.getByLabel("Cut by").selectOption("");
  await page.getByRole("button", { name: "Take a profile" }).click();
  await page.getByText("130 ms in all").waitFor();
  await page.getByLabel("Compared with").selectOption({ index: 1 });
  await page.getByText("Red frames take a larger share").waitFor();
});

inBrowser("a flame graph from the API is searched and walked in the browser, under the headers that it comes with", async (page) => {
  if ((await api("profile/state")).status !== 200) return; // not Warren
  const own = await page.context().browser().newContext({ httpCredentials: { username: USER, password: PASSWORD } });
  const svg = await own.newPage();
  const faults = [];
  svg.on("pageerror", (error) => faults.push(error.stack));
  svg.on("console", (message) => faults.push(message.text()));
  const answer = await svg.goto(`${MANAGEMENT}/api/profile/waits?seconds=1&as=svg`);
  assert.match(answer.headers()["content-security-policy"], /sandbox allow-scripts/);
  const found = svg.locator("#found");
  const answers = ["sleeps in|waits", "no function has this name", ""];
  const asked = [];
  svg.on("dialog", (dialog) => { asked.push(dialog.message()); return dialog.accept(answers[asked.length - 1]); });
  await svg.keyboard.press("Control+f");
  await until("a share of what matches", async () => / [1-9][0-9.]*%$/.test(await found.textContent()));
  assert.ok(await svg.locator("#boxes g.hit").count() > 0);
  await svg.keyboard.press("Control+f");
  await until("nothing matches", async () => (await found.textContent()).endsWith(": 0.0%"));
  assert.equal(await svg.locator("#boxes g.hit").count(), 0);
  await svg.keyboard.press("Control+f");
  await until("nothing is searched", async () => (await found.textContent()) === "");
  assert.equal(asked.length, 3);
  const shown = () => svg.evaluate(() => [...document.querySelectorAll("#boxes g")].filter((it) => it.style.display !== "none").length);
  const all = await shown();
  await svg.locator("#boxes g").last().click();
  await until("less is shown", async () => await shown() < all);
  await svg.locator("#reset").click();
  assert.equal(await shown(), all);
  assert.deepEqual(faults, []);
  await own.close();
});

inBrowser("the broker's own profile is drawn", async (page) => {
  if ((await api("profile/state")).status !== 200) return; // not Warren
  const load = setInterval(() => { for (let i = 0; i < 500; i += 1) channel.publish("orders", "order.us.paid", Buffer.alloc(200), { persistent: true }); }, 20);
  try {
    await browser.go(page, "profile");
    await page.getByLabel("Seconds").selectOption("5");
    await page.getByRole("button", { name: "Take a profile" }).click();
    await page.getByRole("application", { name: /Flame graph/ }).waitFor();
    await page.getByRole("row").nth(1).waitFor();
    await page.getByLabel("Cut by").selectOption("vhost");
    await page.waitForTimeout(300);
    await browser.shot(page, "flame");
    await page.getByRole("button", { name: "Last minutes" }).click();
    assert.equal(await page.getByRole("button", { name: "Show the last minutes" }).isDisabled(), true, "nothing is kept yet");
    await page.getByRole("button", { name: "Keep a history" }).click();
    await page.getByText(/^history of/).waitFor();
    await page.waitForTimeout(1500);
    await page.getByRole("button", { name: "Show the last minutes" }).click();
    await page.getByLabel("Profile shown").filter({ hasText: "Last minutes" }).waitFor();
    await page.getByRole("button", { name: "End the history" }).click();
    await page.getByText("no history", { exact: true }).waitFor();
    assert.equal((await api("profile/state")).body.continuous, false);
  } finally { clearInterval(load); }
});

inBrowser("where threads wait is drawn thread by thread, and page faults are or are said to be forbidden", async (page) => {
  if ((await api("profile/state")).status !== 200) return; // not Warren
  await browser.go(page, "profile");
  await page.getByLabel("Seconds").selectOption("5");
  await page.getByRole("button", { name: "Waits" }).click();
  await page.getByText("Threads that wait for work are included").waitFor();
  await page.getByRole("button", { name: "Take a profile" }).click();
  await page.getByRole("application", { name: /Flame graph/ }).waitFor();
  assert.equal(await page.getByLabel("Cut by").inputValue(), "thread");
  await page.getByRole("button", { name: "(sleeps in futex)" }).first().click(); // in the table: highlights it
  await page.getByText(/% in what matches/).waitFor();
  const [written] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "JSON" }).click()]);
  assert.equal(JSON.parse(await readFile(await written.path(), "utf8")).watched, "waiting");
  const [kept] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "folded" }).click()]);
  assert.match(await readFile(await kept.path(), "utf8"), /^\(values are nanoseconds of waiting\) 0\n/);
  await page.getByRole("heading", { name: "Profiling" }).scrollIntoViewIfNeeded();
  await page.waitForTimeout(300);
  await browser.shot(page, "waits");
  await page.getByLabel("Highlight functions").fill("");
  page.expected = /status of 503/;
  await page.getByRole("button", { name: "Page faults" }).click();
  await page.getByRole("button", { name: "Take a profile" }).click();
  await page.getByText(/page faults? in all|Not one sample|page faults cannot be sampled/).first().waitFor();
});

inBrowser("definitions are downloaded and read back", async (page) => {
  await browser.go(page, "definitions");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download definitions" }).click()]);
  const path = await download.path();
  await page.getByLabel("File").setInputFiles(path);
  await page.getByText(/\d+ vhosts/).waitFor();
  await page.getByRole("button", { name: "Import definitions" }).click();
  await page.getByText("Imported. Nothing was left out.").waitFor();
  await page.getByRole("combobox", { name: /^What/ }).selectOption(VHOST);
  const [one] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download definitions" }).click()]);
  const document = JSON.parse(await readFile(await one.path(), "utf8"));
  assert.equal(document.users, undefined);
  assert.ok(document.queues.some((queue) => queue.name === "billing"));
});

inBrowser("what an import leaves out is a table on the page", async (page) => {
  await browser.go(page, "definitions");
  const entry = (name, kind) => ({ name, vhost: VHOST, durable: true, auto_delete: false, arguments: { "x-queue-type": kind } });
  const document = { queues: [entry("import-q", "classic"), entry("import-s", "unheard-of")], bindings: [{ source: "orders", vhost: VHOST, destination: "import-s", destination_type: "queue", routing_key: "audit.#", arguments: {} }], policies: [{ vhost: VHOST, name: "ui-old", pattern: "^none", "apply-to": "queues", priority: 0, definition: { "queue-mode": "lazy" } }] };
  await page.getByLabel("File").setInputFiles({ name: "mixed.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(document)) });
  page.expected = /status of 400/;
  await page.getByRole("button", { name: "Import definitions" }).click();
  await page.getByRole("alert").filter({ hasText: "nothing was imported" }).waitFor();
  await page.getByLabel("Leave out what Warren does not have").check();
  await page.getByRole("button", { name: "Import definitions" }).click();
  const table = page.locator("section, details, .panel").filter({ hasText: "Left out by the import" }).last();
  await table.getByText("1 binding left out; no other binding has the key audit.#").waitFor();
  await table.getByText("queue-mode has no effect").waitFor();
  await table.getByRole("row").filter({ hasText: "import-s" }).first().waitFor();
  await browser.shot(page, "import");
  await api(`queues/${V}/import-q`, { method: "DELETE" });
  await api(`policies/${V}/ui-old`, { method: "DELETE" });
});

test("the files come gzipped with an entity tag, and a second request costs nothing", async () => {
  const first = await fetch(`${MANAGEMENT}/ui.js`);
  assert.equal(first.status, 200);
  assert.match(first.headers.get("content-type"), /javascript/);
  const tag = first.headers.get("etag");
  assert.ok(tag);
  const again = await fetch(`${MANAGEMENT}/ui.js`, { headers: { "If-None-Match": tag } });
  assert.equal(again.status, 304);
});
