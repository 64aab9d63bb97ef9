// A real chromium, logged in, that notes everything a page should not do. Refuses to know what is on the pages.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const cache = process.env.CACHE ?? new URL("../../.cache", import.meta.url).pathname;
const from = (folder, name) => createRequire(join(cache, folder, "package.json"))(name);
export const { chromium } = from("ui", "playwright-core");
const axe = readFileSync(createRequire(join(cache, "ui", "package.json")).resolve("axe-core/axe.min.js"), "utf8");
export const amqp = from("node", "amqplib");
export const rhea = from("node", "rhea");

export const MANAGEMENT = (process.env.MANAGEMENT_URL ?? "http://127.0.0.1:15672").replace(/\/$/, "");
export const AMQP = process.env.AMQP_URL ?? "amqp://guest:guest@127.0.0.1:5672/%2F";
const { username, password } = new URL(AMQP);
export const USER = decodeURIComponent(username || "guest");
export const PASSWORD = decodeURIComponent(password || "guest");
const AUTHORIZATION = `Basic ${Buffer.from(`${USER}:${PASSWORD}`).toString("base64")}`;
/** Where to keep pictures of pages; unset: nowhere. */
const SHOTS = process.env.UI_SHOTS;

/** The management API, for preparing and checking. */
export async function api(path, { method = "GET", body } = {}) {
  const answer = await fetch(`${MANAGEMENT}/api/${path}`, { method, headers: { Authorization: AUTHORIZATION, "Content-Type": "application/json" }, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await answer.text();
  return { status: answer.status, body: text ? JSON.parse(text) : null };
}

/** Waits for something that becomes true, up to ten seconds. */
export async function until(what, check) {
  const end = Date.now() + 10000;
  for (;;) {
    const result = await check();
    if (result) return result;
    if (Date.now() > end) throw new Error(`waited in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Routes that only some brokers have: pages say so when they are missing, and chromium logs the 404. */
const OPTIONAL = /\/api\/(explain|profile|stages|logs|shovels|stream)\b/;

export class Browser {
  faults = [];

  static async start() {
    const it = new Browser();
    const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
    it.browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"] });
    return it;
  }

  /** A page of a new, empty profile. */
  async page({ dark = false, login = true, wide = 1280 } = {}) {
    const context = await this.browser.newContext({ viewport: { width: wide, height: 800 }, colorScheme: dark ? "dark" : "light" });
    const page = await context.newPage();
    page.setDefaultTimeout(15000);
    const fault = (text) => this.faults.push(`${page.url()}: ${text}`);
    page.on("pageerror", (error) => fault(error.stack));
    page.on("console", (message) => {
      if (!["error", "warning"].includes(message.type())) return;
      const expected = page.expected?.test(message.text()) || (/status of 40[04]/.test(message.text()) && OPTIONAL.test(message.location().url));
      if (!expected) fault(`${message.text()} ${message.location().url}`);
    });
    page.on("request", (request) => {
      const { origin } = new URL(request.url());
      if (origin !== new URL(MANAGEMENT).origin && !request.url().startsWith("blob:")) fault(`asked somebody else: ${request.url()}`);
    });
    await page.goto(`${MANAGEMENT}/`);
    if (login) await this.login(page);
    return page;
  }

  async login(page, user = USER, word = PASSWORD) {
    await page.getByLabel("User").fill(user);
    await page.getByLabel("Password").fill(word);
    await page.getByRole("button", { name: "Log in" }).click();
  }

  async go(page, address) {
    await page.goto(`${MANAGEMENT}/#/${address}`);
    await page.locator("main").waitFor();
  }

  /** The faults that axe-core finds in the page as it is: one line for each kind, with the first place. */
  async barriers(page) {
    if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
    return page.evaluate(async () => {
      const { violations } = await window.axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
      return violations.map((it) => `${it.id} ${it.nodes.length}x: ${it.nodes[0].html.slice(0, 200)} ${it.nodes[0].failureSummary}`);
    });
  }

  async shot(page, name) {
    if (SHOTS) await page.screenshot({ path: join(SHOTS, `${name}.png`) });
  }

  async stop() { await this.browser.close(); }
}
