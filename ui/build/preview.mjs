// Serves dist/ as the broker does (same headers, strict content security policy) and passes /api on to another broker.
//   npm run preview -- --api http://127.0.0.1:15674 [--port 0]
import { createHash } from "node:crypto";
import { createServer, request } from "node:http";
import { readFileSync } from "node:fs";
import { join, normalize } from "node:path";
import { pathToFileURL } from "node:url";

const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const MIME = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml", txt: "text/plain; charset=utf-8" };
const dist = new URL("../dist/", import.meta.url).pathname;

export function preview(api, port = 0) {
  const server = createServer((req, res) => {
    const path = req.url.split("?")[0];
    if (path.startsWith("/api") || path.startsWith("/debug")) {
      const { hostname, port: to } = new URL(api);
      const on = request({ hostname, port: to, path: req.url, method: req.method, headers: req.headers }, (answer) => {
        res.writeHead(answer.statusCode, answer.headers);
        answer.pipe(res);
      });
      on.on("error", () => { res.writeHead(502); res.end(); });
      req.pipe(on);
      return;
    }
    try {
      const name = normalize(path === "/" ? "/index.html" : path);
      const body = readFileSync(join(dist, `${name}.gz`));
      const etag = `"${createHash("sha256").update(body).digest("base64url")}"`;
      if (req.headers["if-none-match"] === etag) { res.writeHead(304, { etag }); res.end(); return; }
      res.writeHead(200, { etag, "content-type": MIME[name.split(".").pop()] ?? "application/octet-stream", "content-security-policy": CSP, "content-encoding": "gzip", "x-content-type-options": "nosniff" });
      res.end(body);
    } catch {
      res.writeHead(404);
      res.end();
    }
  });
  return new Promise((ready) => server.listen(port, "127.0.0.1", () => ready({ server, url: `http://127.0.0.1:${server.address().port}` })));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const option = (name, fallback) => { const at = process.argv.indexOf(name); return at > 0 ? process.argv[at + 1] : fallback; };
  const { url } = await preview(option("--api", "http://127.0.0.1:15672"), Number(option("--port", "0")));
  console.log(url);
}
