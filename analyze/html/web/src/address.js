// The fragment of the address: what the page shows, so that bookmarks, links and the back button restore it.

/** Changes of these alone replace the step of the history that the last such change made: typing is one step. */
const ONE_STEP = ["from", "to", "filter", "line"];

/**
 * `read()`: the parameters of what is shown, as a list of pairs. `show(wanted)`: shows what the parameters (URLSearchParams,
 * of anybody's making) say, as far as it can.
 */
export class Address {
  #read;
  #show;
  #held = 0;
  #last = "";

  constructor(read, show) {
    this.#read = read;
    this.#show = show;
  }

  /** Shows what the address says, now and whenever it is edited, a link is followed, or the history is. */
  follow() {
    addEventListener("hashchange", () => this.#restore());
    this.#restore();
  }

  #restore() {
    this.#held++;
    this.#show(new URLSearchParams(location.hash.slice(1)));
    this.#held--;
    this.#last = "";
    history.replaceState(null, "", `#${new URLSearchParams(this.#read())}`);
  }

  /** Several changes that are one step of the history. */
  together(change) {
    this.#held++;
    change();
    this.#held--;
    this.remember();
  }

  /** Call this after what is shown has changed: writes the address. */
  remember() {
    if (this.#held) return;
    const now = new URLSearchParams(this.#read());
    const before = new URLSearchParams(location.hash.slice(1));
    const names = new Set([...now.keys(), ...before.keys()]);
    const changed = [...names].filter((name) => now.getAll(name).join() !== before.getAll(name).join());
    if (!changed.length) return;
    const kind = changed.every((name) => ONE_STEP.includes(name)) ? changed[0].replace("from", "to") : "";
    if (kind && kind === this.#last) history.replaceState(null, "", `#${now}`);
    else history.pushState(null, "", `#${now}`);
    this.#last = kind;
  }
}

/** The pairs of the address for the orders of these tables, if they are not the first ones, and for the chosen line. */
export function tableParts(tables, line) {
  const orders = tables.map((table) => table.order).filter(Boolean);
  return [...orders.map((order) => ["sort", order]), ...(line ? [["line", line]] : [])];
}

/** Gives these tables the orders of the address, or their first ones. */
export function sortTables(tables, wanted) {
  const orders = wanted.getAll("sort").slice(0, tables.length);
  for (const table of tables) table.order = orders.find((order) => order.startsWith(`${table.id}.`)) ?? null;
}

/** The name of a row's line in the address. */
export const lineName = ({ file, line }) => `${file}:${line}`;

/** Selects the row of a line of the address, or none. */
export function selectLine(table, rows, name, nameOf = lineName) {
  const row = name === null ? undefined : rows.find((each) => nameOf(each) === name);
  if (row) table.select(row, "center");
  else table.unselect();
}
