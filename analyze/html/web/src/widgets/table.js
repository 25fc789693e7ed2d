// A table of any length: sorts by header, supports the keyboard, and creates elements for visible rows only.
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from "@tanstack/virtual-core";
import { element } from "./dom.js";

const ROW = 21; // height of a row in pixels, as in style.css
const LONG = 20; // cells with more characters have their text as tooltip, because it may be cut
const GAP = 8; // between columns

/**
 * A table.
 *
 * columns: [{ key, title, hint, width (CSS), align, value(row), fill(cell, row) or text(row), unsorted }]
 * options: { label, sort: { key, down }, open(row), select(row), decorate(element, row), empty, spare }
 * spare: keys of columns that a narrow table leaves out, the first ones first; never the one that it is sorted by.
 * `fitted` is called when other columns are shown, `changed` after the user has sorted the table or selected a row.
 */
export class Table {
  #rows = [];
  #shown = [];
  #filter = () => true;
  #selected = null;

  constructor(columns, options) {
    this.every = columns;
    this.columns = columns;
    this.options = options;
    this.isWhole = false;
    this.fitted = () => {};
    this.id = options.label.toLowerCase().replaceAll(" ", "-");
    this.sort = options.sort ?? null;
    this.changed = () => {};
    this.head = element("div", { class: "row head", role: "row" });
    this.body = element("div", { class: "rows", role: "rowgroup" });
    this.element = element(
      "div",
      {
        class: "table",
        role: "grid",
        tabindex: "0",
        "aria-label": options.label,
        onkeydown: (event) => this.#key(event),
      },
      this.head,
      this.body,
    );
    this.#show(columns);
    new ResizeObserver(() => this.#fit() && this.refresh()).observe(this.element);
    this.virtual = new Virtualizer({
      count: 0,
      getScrollElement: () => (this.element.isConnected ? this.element : null),
      estimateSize: () => ROW,
      scrollToFn: elementScroll,
      observeElementRect,
      observeElementOffset,
      overscan: 12,
      scrollPaddingStart: ROW + 6,
      onChange: () => this.#draw(),
    });
    this.virtual._didMount();
  }

  #show(columns) {
    const focused = this.head.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.columns = columns;
    this.head.replaceChildren(...columns.map((each) => this.#header(each)));
    this.element.style.setProperty("--columns", columns.map((each) => each.width).join(" "));
    this.element.style.setProperty("--least", `${leastWidth(columns)}px`);
    [...this.head.children].find((cell) => cell.dataset.key === focused)?.focus();
  }

  /** Leaves out columns until the others fit. Returns whether other columns are shown than before. */
  #fit() {
    const width = this.element.clientWidth;
    if (!(width > 0)) return false;
    let columns = this.every;
    for (const key of this.isWhole ? [] : (this.options.spare ?? [])) {
      if (leastWidth(columns) <= width) break;
      if (key !== this.sort?.key) columns = columns.filter((each) => each.key !== key);
    }
    if (columns.length === this.columns.length && columns.every((each, index) => each === this.columns[index])) return false;
    this.#show(columns);
    this.fitted();
    return true;
  }

  /** Titles of the columns that are left out. */
  get leftOut() {
    return this.every.filter((each) => !this.columns.includes(each)).map((each) => each.title);
  }

  /** Shows all columns, or those that fit. */
  showAll(isWhole) {
    this.isWhole = isWhole;
    this.refresh();
  }

  #header(column) {
    const arrow = element("span", { class: "arrow", "aria-hidden": "true" });
    const sorts = column.unsorted
      ? {}
      : { tabindex: "0", onclick: () => this.#sortBy(column), onkeydown: (event) => this.#headerKey(event, column) };
    return element(
      "div",
      {
        class: `cell ${column.align ?? "left"}`,
        role: "columnheader",
        "data-key": column.key,
        title: column.hint,
        ...sorts,
      },
      element("span", { text: column.title }),
      arrow,
    );
  }

  #headerKey(event, column) {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    this.#sortBy(column);
  }

  #sortBy(column) {
    const isSame = this.sort?.key === column.key;
    this.sort = {
      key: column.key,
      down: isSame ? !this.sort.down : column.align === "right" || column.align === "graph",
    };
    this.refresh();
    this.changed();
  }

  /** The order as text, ID.KEY.down or ID.KEY.up; null = the first one. Texts that are no order of the table mean null. */
  get order() {
    const first = this.options.sort ?? null;
    const isFirst = !this.sort || (this.sort.key === first?.key && this.sort.down === first.down);
    return isFirst ? null : `${this.id}.${this.sort.key}.${this.sort.down ? "down" : "up"}`;
  }

  set order(text) {
    const [id, key, way, ...more] = (text ?? "").split(".");
    const isOrder = id === this.id && !more.length && (way === "up" || way === "down");
    const column = isOrder && this.every.find((each) => each.key === key && !each.unsorted);
    this.sort = column ? { key, down: way === "down" } : (this.options.sort ?? null);
    this.refresh();
  }

  /** Shows these rows, in the order of the table. */
  set(rows) {
    this.#rows = rows;
    this.refresh();
  }

  get rows() {
    return this.#rows;
  }

  /** Shows only the rows for which `filter` returns true. */
  filter(filter) {
    this.#filter = filter;
    this.refresh();
  }

  /** Sorts and draws the rows again after their figures have changed. */
  refresh() {
    this.#shown = this.#rows.filter(this.#filter);
    this.#fit();
    const column = this.every.find((each) => each.key === this.sort?.key);
    if (column) this.#shown.sort(byValue(column.value, this.sort.down));
    for (const cell of this.head.children) this.#showSort(cell);
    if (!this.virtual.scrollRect?.height) this.#update({ enabled: false }); // was hidden: measure its size again
    this.#update({ enabled: true, count: this.#shown.length });
    this.virtual.measure();
    this.#draw();
  }

  #update(options) {
    this.virtual.setOptions({ ...this.virtual.options, ...options });
    this.virtual._willUpdate();
  }

  #showSort(cell) {
    const isSorted = cell.dataset.key === this.sort?.key;
    cell.setAttribute("aria-sort", isSorted ? (this.sort.down ? "descending" : "ascending") : "none");
    cell.lastChild.textContent = isSorted ? (this.sort.down ? "▾" : "▴") : "";
  }

  #draw() {
    this.element.setAttribute("aria-rowcount", String(this.#shown.length + 1));
    this.body.style.height = `${Math.max(this.virtual.getTotalSize(), 2 * ROW)}px`;
    const items = this.virtual.getVirtualItems();
    const empty = this.#shown.length
      ? []
      : [element("div", { class: "empty", text: this.options.empty ?? "No rows." })];
    if (this.#selected) this.element.setAttribute("aria-activedescendant", `${this.id}-selected`);
    else this.element.removeAttribute("aria-activedescendant");
    this.body.replaceChildren(
      ...empty,
      ...items.filter((item) => item.index < this.#shown.length).map((item) => this.#row(item)),
    );
  }

  #row(item) {
    const row = this.#shown[item.index];
    const made = element("div", {
      class: row === this.#selected ? "row selected" : "row",
      role: "row",
      "aria-rowindex": String(item.index + 2),
      "aria-selected": String(row === this.#selected),
      id: row === this.#selected ? `${this.id}-selected` : null,
      onclick: () => this.#choose(item.index, false),
      ondblclick: () => this.options.open?.(row),
    });
    made.style.transform = `translateY(${item.start}px)`;
    for (const column of this.columns) {
      const cell = element("div", { class: `cell ${column.align ?? "left"} ${column.style ?? ""}`, role: "gridcell" });
      if (column.fill) column.fill(cell, row);
      else cell.textContent = column.text(row);
      if (!cell.title && cell.textContent.length > LONG) cell.title = cell.textContent.trim();
      made.append(cell);
    }
    this.options.decorate?.(made, row);
    return made;
  }

  /** Selects a row and scrolls to it. */
  select(row, align = "auto") {
    const index = this.#shown.indexOf(row);
    if (index >= 0) this.#choose(index, true, align);
  }

  /** The selected row; null = none, or one that is not shown. */
  get selected() {
    return this.#shown.includes(this.#selected) ? this.#selected : null;
  }

  unselect() {
    this.#selected = null;
    this.#draw();
  }

  /** Scrolls to a row without selecting it. */
  scrollTo(row) {
    const index = this.#shown.indexOf(row);
    if (index >= 0) this.virtual.scrollToIndex(index, { align: "center" });
  }

  /** The row at `index` in the current order. */
  at(index) {
    return this.#shown[index];
  }

  #choose(index, scrolls, align = "auto") {
    this.#selected = this.#shown[index] ?? null;
    if (this.#selected) this.options.select?.(this.#selected);
    if (scrolls) this.virtual.scrollToIndex(index, { align });
    this.#draw();
    this.changed();
  }

  #key(event) {
    if (event.target !== this.element || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.#shown.length - 1;
    const now = this.#shown.indexOf(this.#selected);
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 2);
    const places = {
      ArrowDown: now + 1,
      ArrowUp: now - 1,
      PageDown: now + page,
      PageUp: now - page,
      Home: 0,
      End: last,
    };
    if (event.key in places && last >= 0) {
      event.preventDefault();
      this.#choose(Math.min(Math.max(places[event.key], 0), last), true);
    } else if (event.key === "Enter" && this.#selected) {
      this.options.open?.(this.#selected);
    }
  }
}

/** The least width of the columns in pixels. */
function leastWidth(columns) {
  return columns.reduce((sum, { width }) => sum + Number(width.match(/\d+/)[0]) + GAP, GAP);
}

/** Compares rows by their values; unknown values are last. */
function byValue(value, down) {
  const sign = down ? -1 : 1;
  return (one, other) => {
    const left = value(one) ?? null;
    const right = value(other) ?? null;
    if (left === null || right === null) return (left === null) - (right === null);
    if (typeof left === "string") return sign * (left < right ? -1 : left > right ? 1 : 0);
    return sign * (left - right);
  };
}
