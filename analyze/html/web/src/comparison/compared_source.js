// Both versions of the source side by side, with the cost of their lines and its change.
import { baseName, clean } from "../format.js";
import { Split } from "../widgets/split.js";
import { coloured, writeCode } from "../widgets/syntax.js";
import { Table } from "../widgets/table.js";
import { changeText, chip, comparedName } from "./compared.js";

// Below this width of the window, the versions get the place of the list of files.
const NARROW = 1300;

/** The names of a row's lines in the address: of the new one, then of the old one. */
function rowNames(file, { before, after }) {
  const names = [];
  if (after) names.push(comparedName({ file: file.after, line: after }));
  if (before) names.push(comparedName({ file: null, before_file: file.before, before_line: before }));
  return names;
}

export class ComparedSource {
  #file = null;
  #wasShown = false;
  #rows = new Map();

  constructor(compared, state) {
    this.compared = compared;
    this.state = state;
    this.sources = ["before", "after"].map((side) => new Map(Object.entries(compared.sources[side])));
    this.texts = [new Map(), new Map()];
    this.lines = [linesBy(compared.lines, "before_file", "before_line"), linesBy(compared.lines, "file", "line")];
    this.fileRows = compared.files.map((file) => ({ ...file, name: file.after ?? file.before }));
    this.files = new Table(this.#fileColumns(), {
      label: "Files",
      sort: { key: "weight", down: true },
      empty: "No source file has a sample.",
      select: (row) => this.#show(row),
      open: () => this.table.element.focus(),
    });
    this.table = new Table(this.#columns(), {
      label: "Both versions of the source",
      empty: "Choose a file.",
      decorate: (made, row) => this.#tint(made, row),
      spare: ["before", "after", "verdict"],
    });
    this.split = new Split(this.files, this.table, NARROW, "narrow");
    this.element = this.split.element;
  }

  /** Call this after the chosen measure has changed. */
  refresh() {
    for (const file of this.fileRows) file.weight = this.#weight(file);
    this.files.set(this.fileRows);
    if (this.#file === null && this.fileRows.length) this.#show(this.files.at(0));
    else this.table.refresh();
  }

  #weight(file) {
    const own = this.compared.lines.filter((row) =>
      row.file === null ? row.before_file === file.before : row.file === file.after,
    );
    return own.reduce((sum, row) => sum + Math.max(this.#value(row, "before"), this.#value(row, "after")), 0);
  }

  #value(row, side) {
    return Math.abs(row?.changes[this.state.measure]?.[side] ?? 0);
  }

  filter(term) {
    this.files.filter((row) => !term || `${row.before ?? ""}\n${row.after ?? ""}`.toLowerCase().includes(term));
  }

  /** Shows the row of a line of the comparison. */
  open(line) {
    const [side, file, number] = line.file === null ? ["before", line.before_file, line.before_line] : ["after", line.file, line.line]; // prettier-ignore
    const found = this.fileRows.find((row) => row[side] === file);
    if (!found) return;
    this.#show(found);
    this.files.select(found);
    const row = this.#rows.get(found).find((each) => each[side] === number);
    if (row) this.table.select(row, "center");
    this.table.element.focus();
  }

  /** What is shown, for the address: the name of the selected line, or of the file; null = the first file. */
  get line() {
    const row = this.table.selected;
    if (row?.before || row?.after) return rowNames(this.#file, row)[0];
    return this.#file === (this.files.at(0) ?? this.#file) ? null : this.#file.name;
  }

  set line(name) {
    const isOf = (file) => name === file.name || [file.before, file.after].some((each) => each !== null && name?.replace(/^-/, "").startsWith(`${each}:`)); // prettier-ignore
    const file = this.fileRows.find((each) => isOf(each)) ?? this.files.at(0) ?? this.#file;
    if (!file) return;
    this.#show(file);
    const row = this.#rows.get(file).find((each) => rowNames(file, each).includes(name));
    if (row) this.table.select(row, "center");
    else this.table.unselect();
  }

  #show(file) {
    if (!this.#rows.has(file)) this.#rows.set(file, this.#rowsOf(file));
    if (this.#file === file) return;
    this.#file = file;
    const names = [file.before, file.after].filter(Boolean);
    this.split.title.textContent = names[0] === names[1] || names.length === 1 ? clean(names[0]) : names.map(clean).join("  →  ");
    this.table.set(this.#rows.get(file));
    this.#scrollToChange();
  }

  #scrollToChange() {
    const rows = this.#rows.get(this.#file);
    const cost = (row) => Math.abs(this.#value(row.old, "before") - this.#value(row.now, "after"));
    const row = rows.reduce((most, each) => (cost(each) > cost(most) ? each : most), rows[0]);
    if (row) this.table.scrollTo(row);
  }

  /** Call this after the pane has become visible. */
  shown() {
    this.files.refresh();
    this.table.refresh();
    if (this.#file !== null && !this.#wasShown) this.#scrollToChange();
    this.#wasShown = true;
  }

  /** A row for each pair of lines that stand side by side; gaps are rows without a line. */
  #rowsOf(file) {
    const rows = [];
    const next = [1, 1];
    for (const [first, other, count] of file.rows) {
      if (first > next[0] || other > next[1]) rows.push(this.#row(file, 0, 0, "⋮"));
      for (let index = 0; index < count; index++)
        rows.push(this.#row(file, first && first + index, other && other + index));
      if (first) next[0] = first + count;
      if (other) next[1] = other + count;
    }
    return rows.length ? rows : this.#withoutText(file);
  }

  /** Text and colours of the lines of a file, by number. */
  #textOf(side, name) {
    if (!this.texts[side].has(name)) {
      const pieces = this.sources[side].get(name) ?? [];
      this.texts[side].set(name, new Map(pieces.flatMap((piece) => linesOf(name, piece))));
    }
    return this.texts[side].get(name);
  }

  /** The rows if the traces hold no text: the lines with samples. */
  #withoutText(file) {
    const own = this.compared.lines.filter((row) => row.file === file.after && row.before_file === file.before);
    return own.map((row) => this.#row(file, row.before_line ?? 0, row.line ?? 0));
  }

  #row(file, before, after, gap = null) {
    const of = (side, name, line) => (line ? this.#textOf(side, name).get(line) : undefined) ?? [line ? null : gap, []];
    const [old, now] = [of(0, file.before, before), of(1, file.after, after)];
    return {
      before,
      after,
      beforeText: old[0],
      beforeColours: old[1],
      afterText: now[0],
      afterColours: now[1],
      old: before ? this.lines[0].get(`${file.before}:${before}`) : null,
      now: after ? this.lines[1].get(`${file.after}:${after}`) : null,
    };
  }

  #fileColumns() {
    const figure = (row) => row.weight;
    return [
      { key: "weight", title: "", width: "64px", align: "right", value: figure, text: (row) => this.compared.text(this.state.measure, figure(row)) }, // prettier-ignore
      {
        key: "file",
        title: "file",
        width: "minmax(80px, 1fr)",
        value: (row) => row.name,
        fill: (cell, row) => Object.assign(cell, { textContent: clean(baseName(row.name)), title: clean(row.name) }),
      },
    ];
  }

  #columns() {
    const number = (side) => ({ key: `${side}-line`, title: "", width: "44px", align: "right", style: "dim", unsorted: true, text: (row) => (row[side] ? String(row[side]) : "") }); // prettier-ignore
    const figure = (side, line) => ({ key: side, title: side, width: "74px", align: "right", unsorted: true, text: (row) => this.compared.text(this.state.measure, this.#figure(row[line], side)) }); // prettier-ignore
    const source = (side) => ({ key: `${side}-text`, title: side === "before" ? "old version" : "new version", width: "minmax(300px, 1fr)", style: `code ${side}`, unsorted: true, fill: (cell, row) => writeCode(cell, row[`${side}Text`] ?? "", row[`${side}Colours`]) }); // prettier-ignore
    return [
      number("before"),
      figure("before", "old"),
      source("before"),
      number("after"),
      figure("after", "now"),
      source("after"),
      {
        key: "change",
        title: "change",
        width: "78px",
        align: "right",
        unsorted: true,
        text: (row) => (this.#change(row) ? changeText(this.#change(row)) : ""),
      },
      {
        key: "verdict",
        title: "",
        width: "70px",
        unsorted: true,
        fill: (cell, row) => cell.append(chip(this.#change(row)?.verdict)),
      },
    ];
  }

  #figure(line, side) {
    const value = line?.changes[this.state.measure]?.[side];
    return value ? value : null;
  }

  /** The change of the line on the right, or of the one on the left if there is none. */
  #change(row) {
    return (row.now ?? row.old)?.changes[this.state.measure];
  }

  #tint(made, row) {
    const cells = { "before-text": [row.old, "before"], "after-text": [row.now, "after"] };
    this.table.columns.forEach((column, index) => {
      const [line, side] = cells[column.key] ?? [];
      const share = this.state.longest > 0 ? this.#value(line, side) / this.state.longest : 0;
      if (share > 0) made.children[index].style.setProperty("--heat", `${Math.round(6 + 44 * Math.sqrt(share))}%`);
    });
    if ((row.beforeText ?? "").trim() !== (row.afterText ?? "").trim()) made.classList.add("differs");
    if (row.before && !row.after) made.classList.add("removed");
    if (row.after && !row.before) made.classList.add("added");
  }
}

/** The lines of a piece of a file: [number, [text, colours]]. */
function linesOf(name, [first, text]) {
  const colours = coloured(name, first, text);
  return text.split("\n").map((each, index) => [first + index, [each, colours[index]]]);
}

function linesBy(lines, file, line) {
  return new Map(lines.filter((row) => row[file] !== null).map((row) => [`${row[file]}:${row[line]}`, row]));
}
