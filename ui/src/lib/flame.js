// The geometry and colours of a flame graph, the difference of two trees, and their functions. Refuses to draw.

export const ROW = 18;
const FRAME_WIDTH_MIN = 0.4; // pixels; what is narrower is not drawn, so that a graph of any size stays quick

/** The frames to draw, as rectangles: `top` and its callers over the whole width, what `top` called below. */
export function layout(root, top, width) {
  const out = [];
  const path = pathTo(root, top) ?? [root];
  path.forEach((node, depth) => out.push({ node, x: 0, width, depth }));
  const place = (node, x, all, depth) => {
    let at = x;
    const total = Math.max(node.value, (node.children ?? []).reduce((sum, it) => sum + it.value, 0));
    for (const child of node.children ?? []) {
      const wide = total > 0 ? (child.value / total) * all : 0;
      if (wide >= FRAME_WIDTH_MIN) {
        out.push({ node: child, x: at, width: wide, depth });
        place(child, at, wide, depth + 1);
      }
      at += wide;
    }
  };
  const last = path[path.length - 1];
  place(last, 0, width, path.length);
  return out;
}

const XML = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const text = (words) => words.replace(/[&<>"]/g, (it) => XML[it]);

/** The graph as a picture that any browser opens. `unit` writes values. */
export function svgOf(root, unit, diff) {
  const wide = 1200, frames = layout(root, root, wide), scale = Math.max(1, ...frames.map((f) => Math.abs(f.node.delta ?? 0)));
  const tall = (frames.reduce((most, f) => Math.max(most, f.depth), 0) + 1) * ROW;
  const boxes = frames.map(({ node, x, width, depth }) => `<g><title>${text(`${node.name}: ${unit(node.value)}`)}</title><rect x="${x.toFixed(1)}" y="${depth * ROW}" width="${Math.max(0.6, width - 0.6).toFixed(1)}" height="${ROW - 1}" fill="${colourOf(node, { dark: false, diff, scale })}"/>${width > 34 ? `<text x="${(x + 4).toFixed(1)}" y="${depth * ROW + 13}">${text(node.name.slice(0, Math.floor((width - 8) / 6)))}</text>` : ""}</g>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${wide} ${tall}" font-family="system-ui, sans-serif" font-size="11"><rect width="${wide}" height="${tall}" fill="#fff"/>${boxes.join("")}</svg>`;
}

function pathTo(node, wanted) {
  if (node === wanted) return [node];
  for (const child of node.children ?? []) {
    const rest = pathTo(child, wanted);
    if (rest) return [node, ...rest];
  }
  return null;
}

const hash = (text) => { let h = 2166136261; for (let i = 0; i < text.length; i += 1) h = Math.imul(h ^ text.charCodeAt(i), 16777619); return h >>> 0; };

/** A calm colour by crate for Rust paths; red and blue for a difference. */
export function colourOf(node, { dark, diff, scale }) {
  if (diff) {
    const d = (node.delta ?? 0) / scale;
    if (Math.abs(d) < 0.003) return dark ? "#2a3338" : "#e6ebee";
    const strength = Math.min(1, 0.25 + Math.sqrt(Math.abs(d)) * 0.75);
    const light = dark ? 24 + strength * 18 : 90 - strength * 32;
    return `hsl(${d > 0 ? 4 : 212} ${dark ? 58 : 72}% ${light}%)`;
  }
  const crate = node.name.replace(/^<+/, "").split(/::|\s/)[0];
  const h = hash(crate);
  const hue = 14 + (h % 46) + (/^\[|^__|^sys|^libc|^mem|^_/.test(node.name) ? 150 : 0);
  return `hsl(${hue} ${dark ? 48 : 74}% ${dark ? 30 + (hash(node.name) % 8) : 72 + (hash(node.name) % 10)}%)`;
}

/** B with, on every frame, how much more it has than A: A is scaled to the size of B first. */
export function difference(a, b) {
  const factor = a.value > 0 ? b.value / a.value : 1;
  const merge = (x, y) => {
    const names = new Set([...(x?.children ?? []), ...(y?.children ?? [])].map((it) => it.name));
    const was = (x?.value ?? 0) * factor, is = y?.value ?? 0;
    return {
      name: (y ?? x).name, value: Math.max(is, 0), delta: is - was,
      children: [...names].map((name) => merge(x?.children?.find((it) => it.name === name), y?.children?.find((it) => it.name === name))),
    };
  };
  return merge(a, b);
}

/** Functions with what they cost themselves and with all they call, most expensive first. */
export function functions(root, most = 25) {
  const all = new Map();
  const walk = (node, open) => {
    const inside = (node.children ?? []).reduce((sum, it) => sum + it.value, 0);
    let it = all.get(node.name);
    if (!it) all.set(node.name, (it = { name: node.name, self: 0, total: 0 }));
    it.self += Math.max(0, node.value - inside);
    const again = open.has(node.name);
    if (!again) { it.total += node.value; open.add(node.name); }
    for (const child of node.children ?? []) walk(child, open);
    if (!again) open.delete(node.name);
  };
  for (const child of root.children ?? []) walk(child, new Set());
  return [...all.values()].sort((a, b) => b.self - a.self || b.total - a.total).slice(0, most);
}
