// The contents of a comparison: totals and lines with their verdicts, and the text of their figures.
import { lineName } from "../address.js";
import { element } from "../widgets/dom.js";
import { baseName, clean, decimal, megabytes, seconds } from "../format.js";
import { Table } from "../widgets/table.js";

export const JUDGED = ["better", "worse"];

/** The measures, totals and lines of the document, prepared for display. */
export class Compared {
  constructor(content) {
    Object.assign(this, content.diff);
    this.measures = new Map(
      content.diff.measures.map(([name, title, isTime, partOf, isLevel]) => [
        name,
        { name, title, isTime, partOf, isRate: content.query.per_second && !isLevel },
      ]),
    );
    this.totals = changes(content.diff.totals, this.measures);
    this.lines = content.diff.lines.map((row) => lineOf(row, content.diff.names, this.measures));
    for (const line of this.lines) {
      line.judged = Object.keys(line.changes).filter((name) => JUDGED.includes(line.changes[name].verdict));
      line.verdict = line.judged.length ? line.changes[line.judged[0]].verdict : null;
    }
  }

  /** Titles by name of the measures that any line has a figure for. */
  titles() {
    const used = new Set(this.lines.flatMap((line) => Object.keys(line.changes)));
    return Object.fromEntries([...this.measures.values()].filter((m) => used.has(m.name)).map((m) => [m.name, m.title]));
  }

  /** A figure with its unit. */
  text(measure, value) {
    if (value === null || value === undefined) return "";
    const { isTime, isRate } = this.measures.get(measure);
    return (isTime ? seconds(value) : megabytes(value)) + (isRate ? "/s" : "");
  }
}

const NAMES = ["status", "file", "function", "before_file", "before_function"];
const LINE = ["status", "file", "function", "line", "source", "before_file", "before_function", "before_line", "before_source"]; // prettier-ignore
const COLUMNS = ["before", "after", "verdict", "ratio", "difference", "low", "high"];

/** A line of the document, whose names are indices; an old text of 0 equals the new text. */
function lineOf(row, names, measures) {
  const line = Object.fromEntries(LINE.map((name, index) => [name, NAMES.includes(name) ? names[row[index]] : row[index]]));
  if (line.before_source === 0) line.before_source = line.source;
  return { ...line, changes: changes(row.at(-1), measures) };
}

function changes(packed, measures) {
  return Object.fromEntries(
    Object.entries(packed).map(([name, row]) => {
      const change = Object.fromEntries(COLUMNS.map((column, index) => [column, row[index] ?? null]));
      return [name, { ...change, isRate: measures.get(name).isRate }];
    }),
  );
}

const signed = (value, digits) => `${value < 0 ? "−" : "+"}${decimal(Math.abs(value), digits)}`;

/** The change in percent, as a factor from 10 on, or, without a ratio, in bytes (per second). */
export function changeText({ before, difference, ratio, isRate }) {
  if (difference === null) return "";
  if (ratio === null)
    return before && Math.abs(difference) >= 1e4 ? `${signed(difference / 1e6, 1)} MB${isRate ? "/s" : ""}` : "";
  return ratio < 10 ? `${signed(100 * (ratio - 1), 1)} %` : `×${decimal(ratio, 1)}`;
}

/** The 95 % interval in percent, or, if figures may be negative, in bytes (per second). */
export function rangeText({ before, ratio, low, high, isRate }) {
  if (low === null || high === null) return "";
  if (ratio === null) {
    const digits = isRate && Math.max(Math.abs(low), Math.abs(high)) < 1e7 ? 1 : 0;
    const ends = [low, high].map((end) => signed(end / 1e6, digits)).join(" to ");
    return before && (low < 0 || high > 1e4) ? `${ends} MB${isRate ? "/s" : ""}` : "";
  }
  const [from, to] = [low, high].map((end) => 100 * (end - 1));
  if (to >= 1000 && from <= -90) return "unknown";
  return to < 1000 ? `${signed(from, 0)} to ${signed(to, 0)} %` : `from ${signed(from, 0)} %`;
}

/** A verdict as a coloured label. */
export function chip(verdict) {
  return element("span", { class: `chip ${(verdict ?? "").replace(" ", "-")}`, text: verdict ?? "" });
}

/** Both figures as bars, before above after. */
export function pairBar({ before, after }, most) {
  const part = (name, value) => {
    const made = element("i", { class: name });
    made.style.width = value > 0 && most > 0 ? `${Math.max((100 * value) / most, 0.6)}%` : "0";
    return made;
  };
  return element("span", { class: "pair" }, part("before", before ?? 0), part("after", after ?? 0));
}

/** The table of totals: a row for each measure with a figure. */
export function totalsTable(compared) {
  const head = ["", "before", "after", "", "change", "95 %", ""].map((text) =>
    element("span", { class: "dim", role: "columnheader", text }),
  );
  const rows = [...compared.measures.values()].flatMap((measure) => {
    const change = compared.totals[measure.name];
    if (!change) return [];
    const most = measure.partOf ? compared.totals[measure.partOf] : change;
    const cells = [
      element("span", { class: measure.partOf ? "part dim" : "", role: "rowheader", text: measure.title }),
      value(compared, measure, change, "before"),
      value(compared, measure, change, "after"),
      pairBar(change, Math.max(most?.before ?? 0, most?.after ?? 0)),
      element("span", { class: "number", text: changeText(change) }),
      element("span", { class: "number dim", text: rangeText(change) }),
      chip(change.verdict),
    ];
    return [element("div", { class: "compared", role: "row", "data-measure": measure.name }, ...cells)];
  });
  return element("section", { class: "totals", role: "table", "aria-label": "Totals" }, element("div", { class: "compared", role: "row" }, ...head), ...rows); // prettier-ignore
}

function value(compared, measure, change, side) {
  const text = compared.text(measure.name, change[side]);
  return element("span", { class: "number", "data-side": side, "data-value": change[side] ?? "", text });
}

/** The place of a line: after, or before if it was removed. */
export const placeOf = (row) =>
  row.file === null ? { file: row.before_file, line: row.before_line } : { file: row.file, line: row.line };

/** The name of a line in the address; one that was removed begins with a minus. */
export const comparedName = (row) => `${row.file === null ? "-" : ""}${lineName(placeOf(row))}`;

const STATUS = { added: "new", removed: "removed", edited: "edited", same: "" };

function statusOf(row) {
  const isMoved = row.file !== null && row.before_file !== null && row.line !== row.before_line;
  return [STATUS[row.status] ?? "", isMoved ? `was ${row.before_line}` : ""].filter(Boolean).join(", ");
}

/** The table of lines for the measure `state.measure`. */
export function changedLines(compared, state, open) {
  const change = (row) => row.changes[state.measure] ?? { before: null, after: null, difference: null, ratio: null, low: null, high: null, verdict: null }; // prettier-ignore
  const figure = (side) => ({
    key: side,
    title: side,
    hint: `the chosen measure in the ${side === "before" ? "old" : "new"} version`,
    width: "84px",
    align: "right",
    value: (row) => change(row)[side],
    text: (row) => compared.text(state.measure, change(row)[side]),
  });
  const columns = [
    {
      key: "verdict",
      title: "verdict",
      hint: "the chosen measure is better, worse, or within noise; empty if there is nothing to compare it with",
      width: "72px",
      value: (row) => ({ worse: 0, better: 1, noise: 2 })[change(row).verdict] ?? 3,
      fill: (cell, row) => cell.append(chip(change(row).verdict)),
    },
    {
      key: "place",
      title: "line",
      hint: "file and line of the new version, or of the old one if the line was removed; press Enter or double-click to open the source",
      width: "minmax(100px, 150px)",
      value: (row) => `${baseName(placeOf(row).file)}:${String(placeOf(row).line).padStart(7)}`,
      fill: (cell, row) => {
        const { file, line } = placeOf(row);
        cell.textContent = `${clean(baseName(file))}:${line}`;
        cell.title = `${clean(file)}:${line}, ${clean(row.function ?? row.before_function ?? "")}`;
      },
    },
    {
      key: "status",
      title: "",
      hint: "new, removed, edited, or the old line number",
      width: "84px",
      style: "dim",
      value: statusOf,
      text: statusOf,
    },
    figure("before"),
    figure("after"),
    {
      key: "bar",
      title: "",
      hint: "before (above) and after (below)",
      width: "minmax(70px, 120px)",
      align: "graph",
      value: (row) => Math.abs(change(row).difference ?? change(row).after ?? change(row).before ?? 0),
      fill: (cell, row) => cell.append(pairBar(change(row), state.longest)),
    },
    {
      key: "change",
      title: "change",
      hint: "change of the chosen measure",
      width: "82px",
      align: "right",
      value: (row) => change(row).ratio ?? change(row).difference,
      text: (row) => changeText(change(row)),
    },
    {
      key: "range",
      title: "95 %",
      hint: "95 % interval of the change, of this figure alone",
      width: "112px",
      align: "right",
      style: "dim",
      unsorted: true,
      text: (row) => rangeText(change(row)),
    },
    {
      key: "also",
      title: "what changed",
      hint: "all measures of the line that are better or worse",
      width: "minmax(90px, 170px)",
      value: (row) => row.judged.length,
      fill: (cell, row) => also(cell, row, compared),
    },
    {
      key: "source",
      title: "source",
      width: "minmax(240px, 3fr)",
      style: "code",
      unsorted: true,
      text: (row) => clean((row.source ?? row.before_source ?? "").trim()),
    },
  ];
  const spare = ["bar", "also", "status", "range"]; // the cells before and after say what the bar shows
  return new Table(columns, { label: "Lines", sort: null, open, spare, empty: "No line has a sample.", decorate: tinted });
}

function also(cell, row, compared) {
  for (const name of row.judged) {
    const text = `${compared.measures.get(name).title} ${changeText(row.changes[name]) || row.changes[name].verdict}`;
    cell.append(element("span", { class: `said ${row.changes[name].verdict}`, text }));
  }
  cell.title = [...cell.children].map((each) => each.textContent).join(", ");
}

function tinted(made, row) {
  if (row.verdict) made.classList.add(row.verdict);
}
