// Numbers, sizes and times as people read them. Columns of numbers keep their width: the style sheet sets tabular figures.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const DASH = "–";

/** 12,345 */
export const count = (n) => (typeof n === "number" && Number.isFinite(n) ? whole.format(n) : DASH);

/** 12.3k, 4.56M: three figures, for tiles and axes. */
export function short(n) {
  if (typeof n !== "number" || !Number.isFinite(n)) return DASH;
  const size = Math.abs(n);
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= limit) { const v = n / (unit === "k" ? 1e3 : limit); return `${trim(v)}${unit}`; }
  }
  return size >= 100 || Number.isInteger(n) ? whole.format(n) : trim(n);
}
const trim = (v) => (Math.abs(v) >= 100 ? v.toFixed(0) : Math.abs(v) >= 10 ? v.toFixed(1) : v.toFixed(2)).replace(/\.0+$/, "");

/** 12.3 KiB; null as a dash. */
export function bytes(n) {
  if (typeof n !== "number" || !Number.isFinite(n)) return DASH;
  let size = n, unit = 0;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  while (Math.abs(size) >= 1024 && unit < 5) { size /= 1024; unit += 1; }
  return `${unit === 0 ? size : size >= 100 ? size.toFixed(0) : size.toFixed(1)} ${units[unit]}`;
}

/** 1,234/s; empty for nothing moving, so that what moves stands out. */
export function rate(n) {
  if (typeof n !== "number" || !Number.isFinite(n)) return DASH;
  if (n === 0) return "0/s";
  return `${n < 10 ? n.toFixed(1) : short(n)}/s`;
}
export const byteRate = (n) => (typeof n === "number" && Number.isFinite(n) ? `${bytes(Math.round(n))}/s` : DASH);

/** 3d 4h, 5m 12s, 820 ms */
export function duration(ms) {
  if (typeof ms !== "number" || !Number.isFinite(ms)) return DASH;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = Math.floor(ms / 1000);
  const parts = [[Math.floor(s / 86400), "d"], [Math.floor(s / 3600) % 24, "h"], [Math.floor(s / 60) % 60, "m"], [s % 60, "s"]];
  const first = parts.findIndex(([n]) => n > 0);
  return parts.slice(first, first + 2).filter(([n]) => n > 0).map(([n, u]) => `${n}${u}`).join(" ");
}

/** 1.2 µs, 34 ms: a time that was measured, given in nanoseconds. */
export function nanos(ns) {
  if (typeof ns !== "number" || !Number.isFinite(ns)) return DASH;
  for (const [limit, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) if (ns >= limit) return `${trim(ns / limit)} ${unit}`;
  return `${Math.round(ns)} ns`;
}

export const percent = (part, all) => (all > 0 ? `${((100 * part) / all).toFixed(part / all < 0.0995 ? 1 : 0)} %` : DASH);

const pad = (n) => String(n).padStart(2, "0");
/** 2026-11-21 14:03:11, local time. */
export function moment(ms) {
  if (!ms) return DASH;
  const d = new Date(ms);
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock(ms)}`;
}
export function clock(ms) {
  const d = new Date(ms);
  return `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}

/** A value of a table or an argument on one line. */
export function value(v) {
  if (v === null || v === undefined) return DASH;
  if (typeof v === "object") return JSON.stringify(v);
  return String(v);
}

/** A value of an argument or a setting, with what its number means: 3,600,000 (1h). */
export function argument(name, v) {
  if (typeof v !== "number") return value(v);
  const means = /ttl|expires|timeout/.test(name) ? duration(v) : /bytes/.test(name) ? bytes(v) : "";
  return `${count(v)}${means ? ` (${means})` : ""}`;
}

/** A name as a pattern that only it matches. */
export const asPattern = (name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

export const exchangeName = (name) => (name === "" ? "(default)" : name);
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
