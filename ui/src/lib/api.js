// Requests to the broker's management API, with the credentials of the session. Refuses to know what is asked for.

/** An answer that is not 2xx. `status` 0: the broker was not reached. `reason`: what the broker said about it. */
export class ApiError extends Error {
  constructor(status, reason) {
    super(reason || (status ? `The broker answered ${status}` : "The broker does not answer"));
    this.status = status;
  }
  /** The broker does not have this route (another version, or another broker). */
  get absent() {
    return this.status === 404 || this.status === 405 || this.status === 501;
  }
}

/** How long an answer may take, milliseconds: a question, and a change, which may have to wait for the disk. A server that hangs keeps
    its sockets open. */
const TIMEOUT_MS = 10000, CHANGE_TIMEOUT_MS = 120000;

let authorization = null;
let onRefused = () => {}, onKnown = () => {}, onSilence = () => {};
/** When the oldest question was asked that is not answered and that no later answer has made up for; null while the broker answers. */
let silentSince = null;

/** `heard(since)` is told when the broker ceases to answer, with the time of the first question that it left open, and null when it
    answers again. */
export function listen(heard) { onSilence = heard; }

function answered(asked, did) {
  const since = did ? null : silentSince ?? asked;
  if (since === silentSince) return;
  silentSince = since;
  onSilence(since);
}

/** The logged-in user, and their rights by vhost; a broker that does not know the question answers without the latter. */
export const WHOAMI = "whoami?permissions=true";

/** Sets what goes into `Authorization` (null: nothing), and what to call when the broker no longer takes it, or says who it is. */
export function authorize(header, refused, known) {
  authorization = header;
  if (refused) onRefused = refused;
  if (known) onKnown = known;
}

/** Path segments, each percent-encoded: `seg("queues", "/", "a/b")` is `queues/%2F/a%2Fb`. */
export const seg = (...parts) => parts.map((part) => encodeURIComponent(part)).join("/");

/** `?a=1&b=x` of what is set. */
export function query(values) {
  const text = new URLSearchParams(Object.entries(values).filter(([, v]) => v !== undefined && v !== null && v !== "")).toString();
  return text ? `?${text}` : "";
}

/** RabbitMQ says 401 also for what a user may not do. Only when it no longer knows the user is the session over; else the user may
    do other things now than before, and the answer says which. */
async function stillWelcome() {
  try {
    const answer = await fetch(`api/${WHOAMI}`, { headers: { Authorization: authorization }, credentials: "omit", cache: "no-store" });
    if (answer.ok) onKnown(await answer.json());
    return answer.status !== 401;
  } catch {
    return true;
  }
}

async function send(path, { method = "GET", body, signal, headers = {}, root = "api/", probing = false, timeoutMs = method === "GET" ? TIMEOUT_MS : CHANGE_TIMEOUT_MS } = {}) {
  const all = { ...headers };
  if (authorization) all.Authorization = authorization;
  if (body !== undefined) all["Content-Type"] = "application/json";
  let answer;
  const asked = Date.now(), late = AbortSignal.timeout(timeoutMs);
  try {
    answer = await fetch(root + path, {
      method, signal: signal ? AbortSignal.any([signal, late]) : late, headers: all,
      body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
      credentials: "omit", cache: "no-store", redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    answered(asked, false);
    throw new ApiError(0, error.name === "TimeoutError" ? `The broker has not answered within ${timeoutMs / 1000} s` : "");
  }
  const isProxy = [502, 503, 504].includes(answer.status) && !answer.headers.get("content-type")?.includes("json");
  answered(asked, !isProxy);
  if (answer.ok) return answer;
  let reason = "";
  try {
    const said = await answer.json();
    reason = typeof said.reason === "string" ? said.reason : said.error ?? "";
  } catch { /* no JSON: the status has to do */ }
  // A proxy in front of a broker that is gone says so without the broker's JSON.
  if (isProxy) throw new ApiError(0);
  if (answer.status === 401 && authorization && !probing && !(await stillWelcome())) onRefused(reason);
  throw new ApiError(answer.status, reason);
}

/** The rest of an answer that has begun; a broker that stops in the middle has not answered. */
async function rest(read) {
  const began = Date.now();
  try {
    return await read();
  } catch (error) {
    if (error.name !== "TimeoutError" && !(error instanceof TypeError)) throw error;
    answered(began, false);
    throw new ApiError(0);
  }
}

/** The JSON answer of `api/PATH`; null when there is no body. Throws ApiError. */
export async function api(path, options) {
  const answer = await send(path, options);
  const text = await rest(() => answer.text());
  return text ? JSON.parse(text) : null;
}

/** As `api`, but gives up with status 413 when the answer is longer than `bytesMax`: for lists that a broker cannot page. */
export async function apiCapped(path, bytesMax, options) {
  const answer = await send(path, options);
  const reader = answer.body.getReader();
  const chunks = [];
  let bytes = 0;
  for (;;) {
    const { done, value } = await rest(() => reader.read());
    if (done) break;
    bytes += value.length;
    if (bytes > bytesMax) {
      reader.cancel();
      throw new ApiError(413, "There is more here than a page can show");
    }
    chunks.push(value);
  }
  return JSON.parse(await new Blob(chunks).text());
}

/** The text of any path below the root of the server (`/debug/pprof/...`), as a Blob. */
export async function fetchBlob(path, options) {
  const answer = await send(path, { root: "", ...options });
  return rest(() => answer.blob());
}
