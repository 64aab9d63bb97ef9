// Places for exchanges and queues in a picture: exchanges from left to right as messages pass them, queues last.
// Refuses to draw. Bounded: what does not fit is counted, not placed.

export const BOX = { width: 204, height: 34, gapX: 140, gapY: 14 };
export const LANE = 9;
export const QUEUES_MAX = 300;
export const EXCHANGES_MAX = 100;
/** Queues that only one exchange leads to are one box when there are more of them. */
const GROUP_MIN = 8;
/** A shorter start of names takes too little room to be left out. */
const START_MIN = 8;

/** `bindings` as the API has them; `extra`: [{ source, destination, kind: "dead" | "alt", from: "queue" | "exchange" }]. */
export function picture(bindings, extra, types, { from = "", find = "", opened = new Set() } = {}) {
  const edges = new Map();
  const key = (kind, name) => `${kind}:${name}`;
  for (const b of bindings) {
    if (b.source === "") continue;
    const a = key("exchange", b.source), z = key(b.destination_type, b.destination);
    const id = `${a}>${z}`;
    const edge = edges.get(id) ?? { id, from: a, to: z, keys: [], more: 0, kind: "" };
    if (edge.keys.length < 3) edge.keys.push(b.routing_key); else edge.more += 1;
    edges.set(id, edge);
  }
  for (const e of extra) {
    const a = key(e.from, e.source), z = key("exchange", e.destination);
    edges.set(`${a}~${z}`, { id: `${a}~${z}`, from: a, to: z, keys: [e.kind === "dead" ? "dead letters" : "alternate"], more: 0, kind: e.kind });
  }
  let all = [...edges.values()];
  if (from) all = reachable(all, key("exchange", from));
  if (find) all = around(all, find.toLowerCase());
  const groups = new Map();
  all = collapsed(all, opened, groups);
  const level = levels(all);
  const nodes = new Map();
  const tally = { exchange: 0, queue: 0, group: 0 };
  const want = (id) => {
    if (nodes.has(id)) return true;
    const kind = id.slice(0, id.indexOf(":"));
    const most = kind === "exchange" ? EXCHANGES_MAX : QUEUES_MAX;
    if (tally[kind] >= most) return false;
    tally[kind] += 1;
    const name = id.slice(kind.length + 1);
    nodes.set(id, { id, kind, name, type: kind === "exchange" ? types.get(name) : undefined, members: groups.get(id) });
    return true;
  };
  const kept = [];
  const hidden = new Set();
  for (const e of all) {
    if (want(e.from) && want(e.to)) kept.push(e);
    else { hidden.add(nodes.has(e.from) ? e.to : e.from); }
  }
  const deepest = Math.max(0, ...[...nodes.values()].filter((n) => n.kind === "exchange").map((n) => level.get(n.id) ?? 0));
  const columns = [];
  const put = (node) => { (columns[node.column] ??= []).push(node); return node; };
  for (const node of nodes.values()) {
    node.column = node.kind === "exchange" ? level.get(node.id) ?? 0 : deepest + 1;
    node.tall = BOX.height;
    put(node);
  }
  // A line that passes columns gets a place in each of them, so that it does not run behind boxes.
  const drawn = kept.map((e) => {
    const a = nodes.get(e.from), z = nodes.get(e.to), via = [];
    if (e.kind !== "dead") for (let c = a.column + 1; c < z.column; c += 1) via.push(put({ id: `${e.id}@${c}`, name: z.name, column: c, tall: 4 }));
    return { ...e, a, z, via };
  });
  arrange(columns, drawn.flatMap((e) => { const way = [e.a, ...e.via, e.z]; return e.kind === "dead" ? [] : way.slice(1).map((to, i) => [way[i], to]); }));
  const heights = columns.map((column) => (column ?? []).reduce((sum, node) => sum + node.tall + BOX.gapY, 0));
  const tallest = Math.max(1, ...heights);
  columns.forEach((column, c) => {
    let y = 16 + (tallest - heights[c]) / 2;
    for (const node of column ?? []) {
      node.x = 12 + c * (BOX.width + BOX.gapX);
      node.y = y;
      y += node.tall + BOX.gapY;
    }
  });
  // Dead letters leave to the right of everything and come back below everything, each exchange's on a lane of its own.
  const lanes = [...new Set(drawn.filter((e) => e.kind === "dead").map((e) => e.z.id))];
  for (const e of drawn) if (e.kind === "dead") e.lane = lanes.indexOf(e.z.id);
  const width = 24 + columns.length * BOX.width + Math.max(0, columns.length - 1) * BOX.gapX, height = tallest + 40;
  // Labels stand at the end of their line, below each other where several lines end.
  const ends = new Map();
  for (const e of [...drawn].sort((p, q) => (p.via.at(-1) ?? p.a).y - (q.via.at(-1) ?? q.a).y)) {
    if (e.kind === "dead") continue;
    e.row = ends.get(e.z.id) ?? 0;
    ends.set(e.z.id, e.row + 1);
  }
  return { nodes: [...nodes.values()], edges: drawn, width: width + (lanes.length ? 16 + lanes.length * LANE : 0), height: height + lanes.length * LANE, right: width, low: height, hidden: hidden.size };
}

/** Names in portions of at most so many bytes of an address each, since servers and proxies refuse longer ones. */
export function portions(names, most) {
  const all = [[]];
  let bytes = 0;
  for (const name of names) {
    const more = encodeURIComponent(name).length + 3;
    if (bytes + more > most && all.at(-1).length) { all.push([]); bytes = 0; }
    all.at(-1).push(name);
    bytes += more;
  }
  return all;
}

/** The prefix of at least half of many names, up to a separator; "" where that is short or there are few. It tells none apart. */
export function commonStart(names) {
  let start = "";
  for (let more = true; more && names.length > 2;) {
    const counts = new Map();
    for (const name of names) {
      const next = name.startsWith(start) ? /^.+?[.\-_:/ ](?=.)/.exec(name.slice(start.length))?.[0] : undefined;
      if (next) counts.set(next, (counts.get(next) ?? 0) + 1);
    }
    const [next, count] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
    more = count * 2 >= names.length;
    if (more) start += next;
  }
  return start.length < START_MIN ? "" : start;
}

/** The objects of that name, and all that are one step away. */
function around(edges, text) {
  const named = (id) => id.slice(id.indexOf(":") + 1).toLowerCase().includes(text);
  return edges.filter((e) => named(e.from) || named(e.to));
}

/** Puts the queues that only one exchange leads to, and that send nothing on, into one box per exchange, where there are many. */
function collapsed(edges, opened, groups) {
  const ways = new Map();
  for (const e of edges) for (const id of [e.from, e.to]) if (id.startsWith("queue:")) ways.set(id, (ways.get(id) ?? 0) + 1);
  const alone = new Map();
  for (const e of edges) if (e.kind === "" && e.to.startsWith("queue:") && ways.get(e.to) === 1) alone.set(e.from, [...(alone.get(e.from) ?? []), e]);
  const gone = new Set();
  const out = [];
  for (const [source, leading] of alone) {
    if (leading.length <= GROUP_MIN || opened.has(source)) continue;
    const id = `group:${source.slice("exchange:".length)}`, keys = [...new Set(leading.flatMap((e) => e.keys))];
    leading.forEach((e) => gone.add(e));
    groups.set(id, leading.map((e) => e.to.slice("queue:".length)));
    out.push({ id: `${source}>${id}`, from: source, to: id, keys: keys.slice(0, 3), more: Math.max(0, keys.length - 3), kind: "" });
  }
  return [...edges.filter((e) => !gone.has(e)), ...out];
}

function reachable(edges, start) {
  const seen = new Set([start]);
  for (let grew = true; grew;) {
    grew = false;
    for (const e of edges) if (seen.has(e.from) && !seen.has(e.to) && seen.add(e.to)) grew = true;
  }
  return edges.filter((e) => seen.has(e.from) && seen.has(e.to));
}

/** Longest way from an exchange that nothing leads to; cycles end after as many rounds as there are exchanges. */
function levels(edges) {
  const level = new Map();
  const between = edges.filter((e) => e.kind !== "dead" && e.to.startsWith("exchange:"));
  for (const e of edges) { if (!level.has(e.from)) level.set(e.from, 0); if (!level.has(e.to)) level.set(e.to, 0); }
  for (let round = 0; round < Math.min(12, between.length); round += 1) {
    let moved = false;
    for (const e of between) {
      const to = Math.min(8, level.get(e.from) + 1);
      if (level.get(e.to) < to && e.from !== e.to) { level.set(e.to, to); moved = true; }
    }
    if (!moved) break;
  }
  return level;
}

/** Orders each column by where its neighbours are, a few times over, so that few lines cross. `pairs`: [[node, node], ...]. */
function arrange(columns, pairs) {
  for (const column of columns) column?.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const index = () => columns.forEach((column) => column?.forEach((node, i) => { node.at = (i + 0.5) / column.length; }));
  index();
  for (let round = 0; round < 6; round += 1) {
    const sums = new Map();
    const add = (node, at) => { const s = sums.get(node) ?? [0, 0]; s[0] += at; s[1] += 1; sums.set(node, s); };
    for (const [a, z] of pairs) { add(z, a.at); if (round % 2) add(a, z.at); }
    const mean = (node) => { const s = sums.get(node); return s ? s[0] / s[1] : node.at; };
    for (const column of columns) column?.sort((a, b) => mean(a) - mean(b));
    index();
  }
}
