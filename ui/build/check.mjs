// Does dist/ say what src/ says? Builds a copy of the sources in a temporary folder and compares. For CI; changes nothing.
//   UI_MODULES=DIR   the installed packages (default: node_modules beside this folder)
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

const root = new URL("..", import.meta.url).pathname;
const modules = process.env.UI_MODULES ?? join(root, "node_modules");
const copy = mkdtempSync(join(tmpdir(), "warren-ui-"));
try {
  for (const name of ["src", "public", "index.html", "vite.config.js", "package.json"]) cpSync(join(root, name), join(copy, name), { recursive: true });
  symlinkSync(modules, join(copy, "node_modules"));
  execFileSync(process.execPath, [join(modules, "vite/bin/vite.js"), "build", "--logLevel", "warn"], { cwd: copy, stdio: "inherit" });
  const kept = (name) => { try { return gunzipSync(readFileSync(join(root, "dist", `${name}.gz`))); } catch { return Buffer.alloc(0); } };
  const wrong = readdirSync(join(copy, "dist")).filter((name) => !readFileSync(join(copy, "dist", name)).equals(kept(name)));
  if (wrong.length) {
    console.error(`ui/dist is not what ui/src builds: ${wrong.join(", ")} differ. Run: cd ui && npm ci && npm run build, and commit dist/`);
    process.exitCode = 1;
  } else {
    console.log("ui/dist is what ui/src builds");
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
