// After `vite build`: the licences of the libraries that are part of the bundle, then every file gzipped in its place, as the
// broker embeds and sends them.
// Refuses to pass a bundle that outgrew its budget or that a strict content security policy would stop.
import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const GZIP_BYTES_MAX = 118 * 1024; // docs/decisions/web-ui-bundle.md
const dist = new URL("../dist/", import.meta.url).pathname;
const modules = new URL("../node_modules/", import.meta.url).pathname;

const notices = ["svelte", "uplot"].map((name) => {
  const folder = join(modules, name);
  const licence = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
  const version = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).version;
  return `${name} ${version}\n\n${readFileSync(join(folder, licence), "utf8").trim()}\n`;
});
writeFileSync(join(dist, "licenses.txt"), notices.join("\n----\n\n"));

const page = readFileSync(join(dist, "index.html"), "utf8");
if (/<script(?![^>]*\bsrc=)|\son\w+=|<style|\sstyle=/i.test(page)) throw new Error("index.html has inline code: a content security policy stops it");
for (const match of readFileSync(join(dist, "ui.css"), "utf8").matchAll(/url\(([^)]*)\)|@import/g)) {
  throw new Error(`ui.css fetches something: ${match[0]}`);
}

let total = 0;
for (const name of readdirSync(dist).sort()) {
  const plain = readFileSync(join(dist, name));
  const packed = gzipSync(plain, { level: 9 });
  writeFileSync(join(dist, `${name}.gz`), packed);
  rmSync(join(dist, name));
  if (name !== "licenses.txt") total += packed.length;
  console.log(`${name.padEnd(14)} ${String(plain.length).padStart(7)} B  gzip ${String(packed.length).padStart(7)} B`);
}
console.log(`what a browser loads: ${(total / 1024).toFixed(1)} KiB of ${GZIP_BYTES_MAX / 1024} KiB`);
if (total > GZIP_BYTES_MAX) throw new Error("the bundle outgrew its budget");
