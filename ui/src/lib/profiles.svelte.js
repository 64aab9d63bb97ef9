// Profiles taken in this tab, so that they can be compared after walking through other pages. The oldest goes first.
const KEPT_MAX = 12;

class Kept {
  list = $state.raw([]);
  chosen = $state(0);
  #next = 0;
  add(profile) {
    const id = (this.#next += 1);
    this.list = [{ id, ...profile }, ...this.list].slice(0, KEPT_MAX);
    this.chosen = id;
  }
}
export const kept = new Kept();
