// Values over time for the charts: the samples that the broker kept when it sends them, else what this page has seen so far.

/** How far back, and the step in seconds, as the `*_age` and `*_incr` parameters want them. */
export const RANGES = [
  { name: "1 min", age: 60, incr: 5 },
  { name: "10 min", age: 600, incr: 5 },
  { name: "1 h", age: 3600, incr: 60 },
  { name: "8 h", age: 28800, incr: 600 },
];
/** The samples that a broker keeps of a single object. */
export const OBJECT_RANGES = RANGES.slice(0, 2);

export const rangeQuery = ({ age, incr }, data) => ({
  lengths_age: age, lengths_incr: incr, msg_rates_age: age, msg_rates_incr: incr,
  ...(data ? { data_rates_age: age, data_rates_incr: incr } : {}),
});

const SEEN_MAX = 2000;
const seen = new Map(); // key -> [[ms, number], ...]

/** Remembers a value under a key; at most SEEN_MAX values per key, and 300 keys. */
export function remember(key, value, at = Date.now()) {
  if (typeof value !== "number") return;
  let list = seen.get(key);
  if (!list) {
    if (seen.size > 300) seen.delete(seen.keys().next().value);
    seen.set(key, (list = []));
  }
  if (list.length && at - list[list.length - 1][0] < 500) return;
  list.push([at, value]);
  if (list.length > SEEN_MAX) list.splice(0, list.length - SEEN_MAX);
}

/** Samples by time. Samples before the broker's first look at the object are made up, and left out. */
function samplesOf(details) {
  if (!Array.isArray(details?.samples)) return null;
  const seen = details.samples.filter((s) => s.timestamp >= (details.seen_since ?? 0)).map((s) => [s.timestamp, s.sample]).sort((a, b) => a[0] - b[0]);
  return details.seen_since || seen.length > 1 ? seen : null;
}

/** `[[ms, level]]` of a gauge. */
export function levels(details, key, ageS) {
  return samplesOf(details) ?? recent(key, ageS);
}

/** `[[ms, per second]]` of a counter. */
export function rates(details, key, ageS) {
  const samples = samplesOf(details);
  if (!samples) return recent(key, ageS);
  const out = [];
  for (let i = 1; i < samples.length; i += 1) {
    const dt = (samples[i][0] - samples[i - 1][0]) / 1000;
    if (dt > 0) out.push([samples[i][0], Math.max(0, (samples[i][1] - samples[i - 1][1]) / dt)]);
  }
  return out;
}

function recent(key, ageS) {
  const from = Date.now() - ageS * 1000;
  return (seen.get(key) ?? []).filter(([at]) => at >= from);
}

/** One common time axis for several series: `[seconds, values, values, ...]` for uPlot. */
export function aligned(lists) {
  const times = [...new Set(lists.flatMap((list) => list.map(([at]) => Math.round(at / 1000))))].sort((a, b) => a - b);
  const rows = lists.map((list) => {
    const by = new Map(list.map(([at, v]) => [Math.round(at / 1000), v]));
    return times.map((at) => by.get(at) ?? null);
  });
  return [times, ...rows];
}
