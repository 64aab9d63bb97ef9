// The logged-in user, and the few choices that outlive a page: vhost, refresh interval, theme. Credentials stay in
// sessionStorage of this tab and are gone when it closes.
import { api, authorize, listen, query, WHOAMI } from "./api.js";

const KEY = "warren.authorization";
const SETTINGS = "warren.settings";

const encode = (user, password) => {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
};

function remembered() {
  try { return JSON.parse(localStorage.getItem(SETTINGS)) ?? {}; } catch { return {}; }
}

class Session {
  state = $state("starting"); // starting, out, in
  user = $state.raw(null);
  notice = $state("");
  silentSince = $state(null); // when the broker ceased to answer, milliseconds; null: it answers
  overview = $state.raw(null);
  vhosts = $state.raw([]); // that the user may know of
  learned = $state(false); // the broker has told them
  permissions = $state.raw(null); // by vhost: what the user may configure, write and read; null: the broker does not say
  vhost = $state(""); // the vhost that lists are limited to; empty: all
  everyMs = $state(5000);
  theme = $state("auto");
  columns = $state.raw({}); // by what a list holds: which columns were chosen or left out
  counts = $state.raw({}); // by page: how much is on its list

  constructor() {
    const kept = remembered();
    this.everyMs = kept.everyMs ?? 5000;
    this.theme = kept.theme ?? "auto";
    this.vhost = kept.vhost ?? "";
    this.columns = kept.columns ?? {};
    this.dress();
    listen((since) => { this.silentSince = since; });
  }

  keep() {
    try {
      localStorage.setItem(SETTINGS, JSON.stringify({ everyMs: this.everyMs, theme: this.theme, vhost: this.vhost, columns: this.columns }));
    } catch { /* storage may be off: then the choice lasts as long as the page */ }
  }

  dress() {
    if (this.theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.theme;
  }

  setTheme(theme) { this.theme = theme; this.dress(); this.keep(); }
  setEvery(ms) { this.everyMs = ms; this.keep(); }
  setVhost(vhost) { this.vhost = vhost; this.keep(); }

  setColumn(noun, label, shown) { this.columns = { ...this.columns, [noun]: { ...this.columns[noun], [label]: shown } }; this.keep(); }

  /** The version of Warren; nothing for another broker. (To clients it says that it is RabbitMQ, as they expect.) */
  get warren() { return /Warren ([\w.+-]+)/.exec(this.overview?.erlang_full_version ?? "")?.[1]; }
  /** Vhosts in which the user has permissions. */
  get opened() { return this.permissions ? this.vhosts.filter((name) => this.permissions.has(name)) : this.vhosts; }
  /** Vhosts that the user may look into: administrators into all. Monitors know of all, and look into those with permissions. */
  get entered() { return this.may("administrator") ? this.vhosts : this.opened; }
  /** There are vhosts that the user knows of and may not look into. */
  get partial() { return this.entered.length < this.vhosts.length; }
  /** There is no vhost that the user may look into. */
  get lost() { return this.learned && this.entered.length === 0; }
  /** Vhosts where the user may `configure`, `write` or `read` anything at all. */
  places(kind) { return this.opened.filter((name) => !/^(\^\$)?$/.test(this.permissions?.get(name)[kind] ?? ".*")); }
  /** Whether the user may `configure`, `write` or `read` what is called so. A pattern that only the broker understands may be right. */
  can(kind, vhost, name) {
    if (!this.permissions) return true;
    const pattern = this.permissions.get(vhost)?.[kind];
    try { return pattern !== undefined && (pattern === "" ? name === "" : new RegExp(pattern).test(name)); } catch { return true; }
  }
  /** The vhost that forms begin with: the chosen one, else the default one, else the first of those that will do. */
  homeIn(names) { return [this.vhost, "/", names[0]].find((name) => name && names.includes(name)) ?? (this.learned ? "" : "/"); }
  get home() { return this.homeIn(this.entered); }
  /** Types that a new queue may have. */
  get queueTypes() { return ["classic", "quorum", "stream"]; }

  tags() {
    const tags = this.user?.tags ?? [];
    return typeof tags === "string" ? tags.split(",") : tags;
  }
  /** administrator may all; monitoring and policymaker what RabbitMQ lets them. Several `among` may be enough, with blanks between them. */
  may(among) {
    const tags = this.tags();
    return tags.includes("administrator") || among.split(" ").some((tag) => tags.includes(tag));
  }
  /** Whether the user may `write` or `read` anything in a vhost. */
  touches(kind, vhost) { return !this.permissions || this.places(kind).includes(vhost); }

  async start() {
    let header = null;
    try { header = sessionStorage.getItem(KEY); } catch { /* storage off */ }
    if (!header) { this.state = "out"; return; }
    for (;;) {
      try { await this.enter(header); return; } catch (error) {
        if (error.status !== 0) { this.state = "out"; return; }
        this.notice = "The broker does not answer. This page keeps trying.";
        await new Promise((resume) => setTimeout(resume, 2000));
      }
    }
  }

  async login(user, password) {
    await this.enter(encode(user, password));
  }

  async enter(header) {
    authorize(header, (reason) => this.logout(reason || "The broker no longer accepts this login"), (who) => this.know(who));
    try {
      this.know(await api(WHOAMI, { probing: true }));
    } catch (error) {
      authorize(null);
      throw error;
    }
    try { sessionStorage.setItem(KEY, header); } catch { /* storage off: until the page is reloaded */ }
    await this.learn(); // pages ask for nothing that is not for this user
    this.notice = "";
    this.state = "in";
  }

  know(who) {
    this.user = who;
    this.permissions = who.permissions ? new Map(who.permissions.map((it) => [it.vhost, it])) : null;
  }

  /** Data for the frame around every page: version, vhosts, and rights that may have changed. */
  async learn({ anew = false } = {}) {
    const [overview, vhosts, who] = await Promise.allSettled([api("overview?columns=product_version,rabbitmq_version,erlang_full_version,node,exchange_types"), api(`vhosts${query({ columns: "name" })}`), anew ? api(WHOAMI) : null]);
    if (overview.value) this.overview = overview.value;
    this.learned = vhosts.status === "fulfilled";
    this.vhosts = (vhosts.value ?? []).map((it) => it.name).sort();
    if (who.value) this.know(who.value);
    if (this.learned && this.vhost && !this.entered.includes(this.vhost)) this.setVhost("");
  }

  logout(notice = "") {
    authorize(null);
    try { sessionStorage.removeItem(KEY); } catch { /* storage off */ }
    this.user = null;
    this.permissions = null;
    this.overview = null;
    this.notice = notice;
    this.state = "out";
  }
}

export const session = new Session();
