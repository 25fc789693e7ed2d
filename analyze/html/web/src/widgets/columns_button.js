// The button that shows the columns that a narrow window leaves out.
import { element } from "./dom.js";

export class ColumnsButton {
  #shown;

  /** `tables`: all tables of the page; `shown`: returns those that are visible. */
  constructor(tables, shown) {
    const narrowing = tables.filter((table) => table.options.spare);
    this.#shown = () => shown().filter((table) => narrowing.includes(table));
    this.element = element("button", {
      type: "button",
      onclick: () => {
        const isWhole = !this.#isWhole();
        for (const table of narrowing) table.showAll(isWhole);
        this.refresh();
      },
    });
    for (const table of narrowing) table.fitted = () => this.refresh();
  }

  #isWhole() {
    return this.#shown().some((table) => table.isWhole);
  }

  /** Call this after other tables have become visible. */
  refresh() {
    const titles = [...new Set(this.#shown().flatMap((table) => table.leftOut))];
    const isWhole = this.#isWhole();
    this.element.hidden = !titles.length && !isWhole;
    this.element.textContent = isWhole ? "fewer columns" : "all columns";
    this.element.title = isWhole ? "only those that fit" : `also ${titles.filter(Boolean).join(", ")}`;
  }
}
