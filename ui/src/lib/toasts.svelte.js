// Notices of actions that were done or failed, in a corner for a while.
class Toasts {
  list = $state([]);
  #next = 0;
  add(kind, text) {
    const id = (this.#next += 1);
    this.list.push({ id, kind, text });
    if (this.list.length > 4) this.list.shift();
    setTimeout(() => this.close(id), kind === "bad" ? 12000 : 5000);
  }
  close(id) { this.list = this.list.filter((it) => it.id !== id); }
}
export const toasts = new Toasts();

/** Runs `work`; says `done` when it worked, and why when it did not. True when it worked. */
export async function attempt(work, done) {
  try {
    const result = await work();
    const text = typeof done === "function" ? done(result) : done;
    if (text) toasts.add("good", text);
    return true;
  } catch (error) {
    toasts.add("bad", error.message);
    return false;
  }
}
