// Profiles from /api/profile/*: asking for them, and cutting them by label into the tree that is drawn. Refuses to draw.
import { api, fetchBlob, query } from "./api.js";
import { bytes, nanos, plural } from "./format.js";

export const KINDS = [
  { kind: "cpu", name: "CPU", about: "Functions that use processor time, sampled while the profile runs.", timed: true },
  { kind: "history", name: "Last minutes", about: "Functions that used processor time, from the samples that the broker keeps.", minutes: true },
  { kind: "heap", name: "Heap", about: "Memory that is allocated while the profile runs and still in use at its end, by function.", timed: true, top: "Functions with most memory" },
  { kind: "waits", name: "Waits", about: "Where threads sleep, or wait for the disk or a processor. Threads that wait for work are included.", timed: true, by: "thread", top: "Longest waits" },
  { kind: "faults", name: "Page faults", about: "Functions that touch new memory, or memory that has to come from disk. The operating system must permit it.", timed: true, top: "Functions with most page faults" },
];

/** `node` names another node of the cluster; none for the one that serves the page. */
const place = (kind, { seconds, minutes, node }, as) => `profile/${kind}${query({ seconds: kind === "history" ? undefined : seconds, minutes: kind === "history" ? minutes : undefined, as, node: node || undefined })}`;

/** Takes a profile; resolves when it is there: { kind, unit, labels, names, stacks, at }. */
export const take = async (kind, choice, options) => read(await api(place(kind, choice), { timeoutMs: patience(choice), ...options }), kind);

/** A profile takes as long as it looks, and then its names are read from files. */
const patience = ({ seconds = 0 }) => seconds * 1000 + 120000;

/** One that the broker kept because something was slow. */
export const capture = async (number, node) => read(await api(`profile/captures/${number}${query({ node: node || undefined })}`, { timeoutMs: patience({}) }), "cpu");

/** A new one as a file: pprof, folded or svg. */
export const file = (kind, choice, as) => fetchBlob(`api/${place(kind, choice, as)}`, { timeoutMs: patience(choice) });

function read(answer, kind) {
  return { kind, unit: answer.unit, watched: answer.watched, labels: answer.label_names ?? [], names: answer.names, stacks: answer.stacks, at: answer.began_ms || Date.now(), wall: answer.wall_ms, total: answer.stacks.reduce((sum, it) => sum + it.value, 0), samples: answer.samples, dropped: answer.dropped };
}

/** Profiles that can be compared: the last minutes are CPU time, too. */
export const comparable = (a, b) => a.unit === b.unit && (a.kind === "history" ? "cpu" : a.kind) === (b.kind === "history" ? "cpu" : b.kind);

/** [[value of a label, what was spent for it, a vhost that it was in], ...], most expensive first; the value is null for what was
    for none. */
export function sharesOf(profile, label) {
  const at = profile.labels.indexOf(label), vhost = profile.labels.indexOf("vhost");
  const sums = new Map();
  for (const stack of profile.stacks) {
    const value = stack.labels[at] ?? null;
    const it = sums.get(value) ?? [value, 0, stack.labels[vhost]];
    it[1] += stack.value;
    sums.set(value, it);
  }
  return [...sums.values()].sort((a, b) => b[1] - a[1]);
}

/** The tree of calls. `by`: a label whose values become the first frames. `only`: [label, value], and nothing else. */
export function treeOf(profile, { by = "", only = null } = {}) {
  const cut = profile.labels.indexOf(by);
  const kept = only ? profile.labels.indexOf(only[0]) : -1;
  const root = { name: "all", value: 0, children: new Map() };
  const step = (node, name, value) => {
    let next = node.children.get(name);
    if (!next) node.children.set(name, (next = { name, value: 0, children: new Map() }));
    next.value += value;
    return next;
  };
  for (const { frames, labels, value } of profile.stacks) {
    if (kept >= 0 && labels[kept] !== only[1]) continue;
    root.value += value;
    let node = root;
    if (cut >= 0) node = step(node, labels[cut] === null || labels[cut] === undefined ? `(no ${by})` : `${by} ${labels[cut]}`, value);
    for (const frame of frames) node = step(node, profile.names[frame], value);
  }
  const list = (node) => ({ name: node.name, value: node.value, children: [...node.children.values()].map(list).sort((a, b) => (a.name < b.name ? -1 : 1)) });
  return list(root);
}

/** Stacks of a tree with what was spent in their last function itself: [[names, value], ...]. */
function stacksOf(root) {
  const stacks = [];
  const walk = (node, path) => {
    const inside = node.children.reduce((sum, it) => sum + it.value, 0);
    if (path.length && node.value > inside) stacks.push([path, Math.round(node.value - inside)]);
    for (const it of node.children) walk(it, [...path, it.name]);
  };
  walk(root, []);
  return stacks;
}

const UNITS = { nanoseconds: "nanoseconds", bytes: "bytes", faults: "page faults" };
const TIMES = { cpu: " of running", waiting: " of waiting" };

/** One line for each stack, as flame graph tools read them; the first says what values are, as in the command's files: `profile diff`
    refuses to compare time that threads ran with time that they waited. */
export function folded(root, { unit, watched }) {
  const lines = stacksOf(root).map(([path, value]) => `${path.map((name) => name.replace(/[;\n]/g, ",")).join(";")} ${value}`);
  return `${[`(values are ${UNITS[unit] ?? unit}${TIMES[watched] ?? ""}) 0`, ...lines].join("\n")}\n`;
}

/** A tree as the document that the broker and `profile diff` write and read. */
export function documentOf(root, { unit, watched, at, wall, samples, dropped }) {
  const names = [], known = new Map();
  const index = (name) => {
    if (!known.has(name)) known.set(name, names.push(name) - 1);
    return known.get(name);
  };
  const stacks = stacksOf(root).map(([path, value]) => ({ frames: path.map(index), labels: [], value, count: 1 }));
  return { unit, watched, began_ms: at, wall_ms: wall ?? 0, samples: samples ?? 0, dropped: dropped ?? 0, label_names: [], names, stacks };
}

/** How to write values of a profile. */
export const writer = (unit) => ({ bytes, nanoseconds: nanos, faults: (n) => plural(n, "page fault") })[unit] ?? ((n) => plural(n, "sample"));
