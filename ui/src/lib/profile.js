// Profiles from /api/profile/*: asking for them, and turning what comes into one tree. Refuses to draw.
import { api, fetchBlob, query } from "./api.js";
import { bytes, nanos, plural } from "./format.js";
import { fromFolded } from "./flame.js";

export const KINDS = [
  { kind: "cpu", name: "CPU", about: "Where the processor time goes, sampled while it runs.", timed: true },
  { kind: "heap", name: "Heap", about: "What holds the memory now, by the place that allocated it.", timed: false },
  { kind: "offcpu", name: "Waiting", about: "Where threads wait instead of running.", timed: true },
];
export const LABELS = ["vhost", "queue", "protocol", "exchange", "connection"];

const place = (kind, { seconds, by, only, format }) => `profile/${kind}${query({ seconds: kind === "heap" ? undefined : seconds, by, only, format })}`;

/** Takes a profile; resolves when it is there. */
export async function take(kind, choice, options) {
  return read(await api(place(kind, { ...choice, format: "json" }), options), kind);
}

/** The same as a file: pprof, folded or svg. */
export const file = (kind, choice, format) => fetchBlob(`api/${place(kind, { ...choice, format })}`);

/** One shape from what brokers send: { root } or { tree }, or folded lines. */
export function read(answer, kind) {
  const root = answer.root ?? answer.tree ?? (typeof answer.folded === "string" ? fromFolded(answer.folded) : answer);
  const unit = answer.unit ?? (kind === "heap" ? "bytes" : "samples");
  return { kind, root, unit, at: Date.now(), about: answer };
}

/** How to write values of a profile. */
export const writer = (unit) => (unit === "bytes" ? bytes : unit === "nanoseconds" ? nanos : unit === "microseconds" ? (n) => nanos(n * 1000) : (n) => plural(n, "sample"));
