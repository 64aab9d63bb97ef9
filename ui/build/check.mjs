// Does dist/ say what src/ says? Builds into a folder of its own and compares. For CI; changes nothing.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

const root = new URL("..", import.meta.url).pathname;
const dist = join(root, "dist");
const fresh = mkdtempSync(join(tmpdir(), "warren-ui-"));
try {
  execFileSync("npx", ["vite", "build", "--outDir", fresh, "--emptyOutDir", "--logLevel", "warn"], { cwd: root, stdio: "inherit" });
  const wrong = [];
  for (const name of readdirSync(fresh)) {
    const kept = (file) => { try { return gunzipSync(readFileSync(join(dist, file))); } catch { return Buffer.alloc(0); } };
    if (!readFileSync(join(fresh, name)).equals(kept(`${name}.gz`))) wrong.push(name);
  }
  if (wrong.length) {
    console.error(`ui/dist is not what ui/src builds: ${wrong.join(", ")}. Run: cd ui && npm ci && npm run build, and commit dist/`);
    process.exit(1);
  }
  console.log("ui/dist is what ui/src builds");
} finally {
  rmSync(fresh, { recursive: true, force: true });
}
