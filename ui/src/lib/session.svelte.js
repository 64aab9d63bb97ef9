// Who is logged in, and the few choices that outlive a page: vhost, refresh interval, theme. Credentials stay in
// sessionStorage of this tab and are gone when it closes.
import { api, authorize } from "./api.js";

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
  overview = $state.raw(null);
  vhosts = $state.raw([]);
  lost = $state(false); // the user has no permissions in any vhost
  vhost = $state(""); // the vhost that lists are limited to; empty: all
  everyMs = $state(5000);
  theme = $state("auto");
  columns = $state.raw({}); // by what a list holds: which columns were chosen or left out

  constructor() {
    const kept = remembered();
    this.everyMs = kept.everyMs ?? 5000;
    this.theme = kept.theme ?? "auto";
    this.vhost = kept.vhost ?? "";
    this.columns = kept.columns ?? {};
    this.dress();
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
  /** The vhost that forms begin with: the chosen one, else the default one, else the first that the user sees. */
  get home() { return this.vhost || (this.vhosts.length && !this.vhosts.includes("/") ? this.vhosts[0] : "/"); }
  /** Types that a new queue may have. */
  get queueTypes() { return this.warren ? ["classic"] : ["classic", "quorum", "stream"]; }

  tags() {
    const tags = this.user?.tags ?? [];
    return typeof tags === "string" ? tags.split(",") : tags;
  }
  /** administrator may all; monitoring and policymaker what RabbitMQ lets them. */
  may(tag) {
    const tags = this.tags();
    return tags.includes("administrator") || tags.includes(tag);
  }

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
    authorize(header, (reason) => this.logout(reason || "The broker no longer accepts this login"));
    try {
      this.user = await api("whoami", { probing: true });
    } catch (error) {
      authorize(null);
      throw error;
    }
    try { sessionStorage.setItem(KEY, header); } catch { /* storage off: until the page is reloaded */ }
    this.notice = "";
    this.state = "in";
    this.learn();
  }

  /** What the frame around every page shows: version, cluster name, vhosts. */
  async learn() {
    try { this.overview = await api("overview"); } catch { /* shown by the page itself */ }
    try {
      this.vhosts = (await api("vhosts?columns=name")).map((it) => it.name).sort();
      this.lost = this.vhosts.length === 0;
      if (this.vhost && !this.vhosts.includes(this.vhost)) this.setVhost("");
    } catch { this.vhosts = []; }
  }

  logout(notice = "") {
    authorize(null);
    try { sessionStorage.removeItem(KEY); } catch { /* storage off */ }
    this.user = null;
    this.overview = null;
    this.notice = notice;
    this.state = "out";
  }
}

export const session = new Session();
