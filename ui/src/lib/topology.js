// Places for exchanges and queues in a picture: exchanges from left to right as messages pass them, queues last.
// Refuses to draw. Bounded: what does not fit is counted, not placed.

export const BOX = { width: 190, height: 34, gapX: 130, gapY: 14 };
const QUEUES_MAX = 60, EXCHANGES_MAX = 40;

/** `bindings` as the API has them; `extra`: [{ source, destination, kind: "dead" | "alt", from: "queue" | "exchange" }]. */
export function picture(bindings, extra, types, from) {
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
  const level = levels(all);
  const nodes = new Map();
  const tally = { exchange: 0, queue: 0, left: 0 };
  const want = (id) => {
    if (nodes.has(id)) return true;
    const kind = id.startsWith("queue:") ? "queue" : "exchange";
    if (tally[kind] >= (kind === "queue" ? QUEUES_MAX : EXCHANGES_MAX)) return false;
    tally[kind] += 1;
    nodes.set(id, { id, kind, name: id.slice(kind.length + 1), type: types.get(id.slice(kind.length + 1)) });
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
  for (const node of nodes.values()) {
    node.column = node.kind === "queue" ? deepest + 1 : level.get(node.id) ?? 0;
    (columns[node.column] ??= []).push(node);
  }
  arrange(columns, kept);
  const tallest = Math.max(1, ...columns.map((c) => c?.length ?? 0));
  const height = tallest * (BOX.height + BOX.gapY) + 24;
  columns.forEach((column, c) => column?.forEach((node, row) => {
    node.x = 12 + c * (BOX.width + BOX.gapX);
    node.y = 12 + row * (BOX.height + BOX.gapY) + ((tallest - column.length) * (BOX.height + BOX.gapY)) / 2;
  }));
  return { nodes: [...nodes.values()], edges: kept.map((e) => ({ ...e, a: nodes.get(e.from), z: nodes.get(e.to) })), width: 24 + columns.length * BOX.width + Math.max(0, columns.length - 1) * BOX.gapX, height, hidden: hidden.size };
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

/** Orders each column by where its neighbours are, a few times over, so that few lines cross. */
function arrange(columns, edges) {
  for (const column of columns) column?.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const index = () => columns.forEach((column) => column?.forEach((node, i) => { node.at = i / column.length; }));
  index();
  for (let round = 0; round < 4; round += 1) {
    const sums = new Map();
    const add = (id, at) => { const s = sums.get(id) ?? [0, 0]; s[0] += at; s[1] += 1; sums.set(id, s); };
    const by = new Map(columns.flat().filter(Boolean).map((n) => [n.id, n]));
    for (const e of edges) { const a = by.get(e.from), z = by.get(e.to); if (a && z && e.kind !== "dead") { add(z.id, a.at); if (round % 2) add(a.id, z.at); } }
    for (const column of columns) column?.sort((a, b) => mean(sums, a) - mean(sums, b));
    index();
  }
}
const mean = (sums, node) => { const s = sums.get(node.id); return s ? s[0] / s[1] : node.at; };
