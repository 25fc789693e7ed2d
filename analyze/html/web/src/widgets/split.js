// A list of files beside the text of one, to which the list gives its place in a narrow window.
import { element } from "./dom.js";

export class Split {
  /** `files` and `table` are tables; the list is hidden at first in a window below `narrow` pixels. */
  constructor(files, table, narrow, style = "") {
    this.tables = [files, table];
    this.title = element("div", { class: "details" });
    this.button = element("button", { type: "button", class: "fold", onclick: () => this.#fold(this.#isOpen()) });
    const tools = element("div", { class: "tools" }, this.button, this.title);
    const column = element("div", { class: "pane-column" }, tools, table.element);
    this.element = element("div", { class: `pane-split ${style}` }, files.element, column);
    this.#fold(window.innerWidth < narrow);
  }

  #isOpen() {
    return !this.element.classList.contains("folded");
  }

  /** Hides or shows the list of files. */
  #fold(isFolded) {
    this.element.classList.toggle("folded", isFolded);
    this.button.textContent = isFolded ? "files ▸" : "◂ files";
    this.button.setAttribute("aria-expanded", String(!isFolded));
    for (const table of this.tables) table.refresh();
  }
}
