// Addresses of pages, in the fragment: `#/queues/%2F/orders?page=2`. The server never sees them.

function parse() {
  const text = location.hash.replace(/^#\/?/, "");
  const at = text.indexOf("?");
  const path = (at < 0 ? text : text.slice(0, at)).split("/").filter(Boolean).map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return { path, query: Object.fromEntries(new URLSearchParams(at < 0 ? "" : text.slice(at + 1))) };
}

class Route {
  at = $state.raw(parse());
  get page() { return this.at.path[0] ?? "overview"; }
  get rest() { return this.at.path.slice(1); }
  get query() { return this.at.query; }
}

export const route = new Route();
addEventListener("hashchange", () => { route.at = parse(); });

/** The address of a page: `href("queues", vhost, name)`. An empty name is the default exchange. */
export const href = (...parts) => `#/${parts.map((part) => encodeURIComponent(part === "" ? "amq.default" : part)).join("/")}`;

export function go(address) { location.hash = address.replace(/^#/, ""); }

/** Changes the query of this page without a new entry in the history. */
export function setQuery(change) {
  const next = { ...route.query, ...change };
  const text = new URLSearchParams(Object.entries(next).filter(([, v]) => v !== "" && v !== undefined && v !== null)).toString();
  const path = location.hash.replace(/^#/, "").split("?")[0] || "/overview";
  history.replaceState(null, "", `#${path}${text ? `?${text}` : ""}`);
  route.at = parse();
}
