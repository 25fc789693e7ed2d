// Source text with the cost of each line.
import { lineName } from "./address.js";
import { baseName, clean, decimal, percent } from "./format.js";
import { Split } from "./widgets/split.js";
import { coloured, writeCode } from "./widgets/syntax.js";
import { Table } from "./widgets/table.js";
import { SPARE, deviceColumns, timeBar } from "./columns.js";

// Below this width of the window, the source gets the place of the list of files.
const NARROW = 1100;

export class Source {
  #file = null;
  #rows = new Map();
  #wasShown = false;

  constructor(state) {
    this.state = state;
    this.files = new Table(fileColumns(state), {
      label: "Files",
      sort: { key: "weight", down: true },
      empty: "No source file has a sample.",
      select: (row) => this.#show(row.file),
      open: () => this.table.element.focus(),
    });
    this.table = new Table(sourceColumns(state), {
      label: "Source",
      empty: "Choose a file.",
      decorate: heat(state),
      spare: SPARE,
    });
    this.split = new Split(this.files, this.table, NARROW);
    this.element = this.split.element;
  }

  /** Call this after the window has changed: updates the figures of the files. */
  refresh() {
    const files = new Map();
    for (const row of this.state.trace.lines) {
      const file = files.get(row.file) ?? {
        file: row.file,
        python: 0,
        native: 0,
        unclassified: 0,
        system: 0,
        wait: 0,
        cpu: 0,
        growth: 0,
        alloc: 0,
      };
      for (const name of ["python", "native", "unclassified", "system", "wait", "cpu", "growth", "alloc"]) file[name] += row[name];
      files.set(row.file, file);
    }
    this.fileRows = [...files.values()];
    this.files.set(this.fileRows);
    if (this.#file === null && this.fileRows.length) this.#show(this.files.at(0).file);
    else this.table.refresh();
  }

  filter(term) {
    this.files.filter((row) => !term || row.file.toLowerCase().includes(term) || this.#holds(row.file, term));
  }

  #holds(file, term) {
    return this.state.trace.lines.some((row) => row.file === file && row.function.toLowerCase().includes(term));
  }

  /** Shows a line of a file. */
  open(file, line) {
    this.#show(file);
    const row = this.#rows.get(file).find((each) => each.line === line);
    if (row) this.table.select(row, "center");
    this.table.element.focus();
  }

  /** What is shown, for the address: FILE:LINE, or FILE if no line is selected; null = the first file. */
  get line() {
    const line = this.table.selected?.line ?? null;
    if (line !== null) return lineName({ file: this.#file, line });
    return this.#file === this.#first() ? null : this.#file;
  }

  set line(name) {
    const file = this.fileRows.map((row) => row.file).find((each) => name === each || name?.startsWith(`${each}:`) && this.#lineOf(each, name)); // prettier-ignore
    const shown = file ?? this.#first();
    if (shown === null) return;
    this.#show(shown);
    const row = this.#lineOf(shown, name);
    if (row) this.table.select(row, "center");
    else this.table.unselect();
  }

  #lineOf(file, name) {
    if (!this.#rows.has(file)) this.#rows.set(file, rowsOf(file, this.state.trace));
    return this.#rows.get(file).find((each) => each.line !== null && lineName({ file, line: each.line }) === name);
  }

  /** The file that is shown unless another one is chosen. */
  #first() {
    return this.fileRows.length ? this.files.at(0)?.file ?? this.#file : null;
  }

  #show(file) {
    if (!this.#rows.has(file)) this.#rows.set(file, rowsOf(file, this.state.trace));
    if (this.#file === file) return;
    this.#file = file;
    this.split.title.textContent = clean(file);
    this.table.set(this.#rows.get(file));
    this.#scrollToCostliest();
  }

  /** Scrolls to the most expensive line of a newly opened file. */
  #scrollToCostliest() {
    const cost = (row) => (row.figures ? row.figures.cpu + row.figures.wait * 1e-3 + row.figures.alloc * 1e-15 : 0);
    const rows = this.#rows.get(this.#file);
    const row = rows.reduce((most, each) => (cost(each) > cost(most) ? each : most), rows[0]);
    this.table.scrollTo(cost(row) > 0 ? row : rows[0]);
  }

  /** Call this after the pane has become visible. */
  shown() {
    this.files.refresh();
    this.table.refresh();
    if (this.#file !== null && !this.#wasShown) this.#scrollToCostliest();
    this.#wasShown = true;
  }
}

/** A row for each line of the stored text; gaps are rows without a line. */
function rowsOf(file, trace) {
  const figures = new Map(trace.lines.filter((row) => row.file === file).map((row) => [row.line, row]));
  const pieces =
    trace.sources.get(file) ?? [...figures.keys()].sort((one, other) => one - other).map((line) => [line, null]);
  const rows = [];
  let next = 1;
  for (const [first, text] of pieces) {
    if (first > next) rows.push({ line: null, text: "⋮", colours: [], figures: null });
    const lines = text === null ? [null] : text.split("\n");
    const colours = text === null ? [[]] : coloured(file, first, text);
    lines.forEach((each, index) =>
      rows.push({ line: first + index, text: each, colours: colours[index], figures: figures.get(first + index) ?? null }),
    );
    next = first + lines.length;
  }
  return rows;
}

function fileColumns(state) {
  const weight = (row) => row.cpu + (state.trace.has.cpu ? 0 : row.wait) + row.alloc * 1e-15;
  return [
    {
      key: "weight",
      title: state.trace.has.cpu ? "CPU %" : "",
      width: "56px",
      align: "right",
      value: weight,
      text: (row) => (row.cpu > 0 ? decimal(percent(row.cpu, state.now.totals.cpu), 1) : ""),
    },
    {
      key: "file",
      title: "file",
      width: "minmax(80px, 1fr)",
      value: (row) => row.file,
      fill: (cell, row) => Object.assign(cell, { textContent: clean(baseName(row.file)), title: clean(row.file) }),
    },
  ];
}

function sourceColumns(state) {
  const { has } = state.trace;
  const figure = (key, title, width, text) => ({
    key,
    title,
    width,
    align: "right",
    unsorted: true,
    text: (row) => (row.figures ? text(row.figures) : ""),
  });
  const mega = (value) => (value ? decimal(value / 1e6, 1) : "");
  const time = (value) => (value > 0 ? decimal(value, 3) : "");
  return [
    {
      key: "line",
      title: "line",
      width: "58px",
      align: "right",
      style: "dim",
      unsorted: true,
      text: (row) => (row.line === null ? "" : String(row.line)),
    },
    has.cpu &&
      figure("cpu", "CPU %", "58px", (row) => (row.cpu > 0 ? decimal(percent(row.cpu, state.now.totals.cpu), 1) : "")),
    (has.cpu || has.wait) && {
      key: "bar",
      title: "time",
      width: "110px",
      align: "graph",
      unsorted: true,
      fill: (cell, row) => row.figures && cell.append(timeBar(row.figures, state)),
    },
    has.wait && figure("wait", "wait s", "64px", (row) => time(row.wait)),
    ...deviceColumns(state).map(beside),
    has.memory && figure("growth", "growth MB", "78px", (row) => mega(row.growth)),
    has.alloc && figure("alloc", "allocated MB", "92px", (row) => mega(row.alloc)),
    {
      key: "text",
      title: "source",
      width: "minmax(300px, 1fr)",
      style: "code",
      unsorted: true,
      fill: (cell, row) => (row.text === null ? cell.append("(source not in the trace)") : writeCode(cell, row.text, row.colours)), // prettier-ignore
    },
  ].filter(Boolean);
}

/** A column of the table of lines, adapted to source text, in which most rows have no figures. */
function beside({ fill, text, ...column }) {
  const own = fill ?? ((cell, row) => (cell.textContent = text(row)));
  return { ...column, unsorted: true, fill: (cell, row) => row.figures && own(cell, row.figures) };
}

/** Colours a line by its cost relative to the most expensive line. */
function heat(state) {
  return (made, row) => {
    const cost = row.figures ? row.figures.cpu + (state.waitInBars ? row.figures.wait : 0) : 0;
    if (cost > 0 && state.longest > 0)
      made.lastChild.style.setProperty("--heat", `${Math.round(6 + 44 * Math.sqrt(cost / state.longest))}%`);
  };
}
