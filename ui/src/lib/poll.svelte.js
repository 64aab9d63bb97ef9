// Asks for a path again and again, as often as the session says, never twice at once and not while nobody looks.
import { api } from "./api.js";
import { session } from "./session.svelte.js";

const WARM_MS = 1200;

class Poll {
  data = $state.raw(undefined);
  error = $state.raw(null);
  #refresh = $state(0);
  get loading() { return this.data === undefined && !this.error; }
  get tick() { return this.#refresh; }
  refresh() { this.#refresh += 1; }
}

/**
 * `path` is called inside an effect: what it reads makes it ask anew; null asks for nothing. `each` sees every answer.
 * Options: `load` replaces the request; `once` asks only when the path changes; `warm` asks a second time soon, since a broker
 * begins to measure rates of an object when somebody first looks at it.
 */
export function poll(path, { each, load = api, once = false, warm = false } = {}) {
  const it = new Poll();
  let last;
  $effect(() => {
    const wanted = path();
    void it.tick;
    const everyMs = once ? 0 : session.everyMs;
    if (wanted === null) return;
    if (wanted !== last) { last = wanted; it.error = null; }
    const stop = new AbortController();
    let timer, early = warm;
    const ask = async () => {
      if (!document.hidden || it.data === undefined) {
        try {
          const data = await load(wanted, { signal: stop.signal });
          if (stop.signal.aborted) return;
          it.data = data;
          it.error = null;
          each?.(data);
        } catch (error) {
          if (stop.signal.aborted || error.name === "AbortError") return;
          it.error = error;
          if (error.status === 404) it.data = undefined;
        }
      }
      // A route that does not exist is asked for only once.
      if (it.error?.absent) return;
      if (early) timer = setTimeout(ask, Math.min(everyMs || WARM_MS, WARM_MS));
      else if (everyMs > 0) timer = setTimeout(ask, everyMs);
      early = false;
    };
    ask();
    return () => { stop.abort(); clearTimeout(timer); };
  });
  return it;
}
