// The page of a comparison: summary, totals, lines with verdicts, both sources, and one flame graph of both versions.
import { Address, selectLine, sortTables, tableParts } from "../address.js";
import { Trace } from "../data.js";
import { ColumnsButton } from "../widgets/columns_button.js";
import { element } from "../widgets/dom.js";
import { clean, decimal } from "../format.js";
import { choices, setChosen } from "../widgets/icicle.js";
import { heading, warning } from "../summary.js";
import { Table } from "../widgets/table.js";
import { Compared, changedLines, comparedName, placeOf, totalsTable } from "./compared.js";
import { ComparedFlame } from "./compared_flame.js";
import { ComparedSource } from "./compared_source.js";

const TABS = { lines: "Lines", source: "Source", flame: "Flame graph", runs: "Runs" };

export class Comparison {
  constructor(content) {
    const compared = new Compared(content);
    const traces = content.traces.map((entry) => new Trace({ ...entry, query: content.query }));
    const count = compared.runs[0];
    this.compared = compared;
    this.sides = [traces.slice(0, count), traces.slice(count)];
    this.firstMeasure = this.#firstMeasure();
    this.state = { measure: this.firstMeasure, longest: 0 };
    this.lines = changedLines(compared, this.state, (row) => this.openSource(row));
    this.source = new ComparedSource(compared, this.state);
    this.flame = new ComparedFlame(this.sides, compared);
    this.runs = runsPane(compared, traces, content.made_by);
    this.measures = choices("Measure of the table", compared.titles(), (name) => this.measure(name));
    this.panes = {
      lines: this.lines.element,
      source: this.source.element,
      flame: this.flame.element,
      runs: this.runs.element,
    };
    this.address = new Address(
      () => this.#parts(),
      (wanted) => this.#restore(wanted),
    );
    this.#build();
    this.#listen();
    this.address.follow();
  }

  /** The measure of the first line that changed, else the first measure with figures. */
  #firstMeasure() {
    const judged = this.compared.lines.find((row) => row.judged.length)?.judged[0];
    return judged ?? Object.keys(this.compared.titles())[0] ?? "cpu_s";
  }

  #build() {
    const [before, after] = this.sides;
    document.title = `${clean(after[0].info.command?.join(" ") ?? after[0].info.path)} – comparison – scalene-trace`;
    this.pane = element("main", { id: "pane", role: "tabpanel" });
    const tables = Object.keys(TABS).flatMap((name) => this.#tables(name));
    for (const table of tables) table.changed = () => this.address.remember();
    this.columns = new ColumnsButton(tables, () => this.#tables(this.tab));
    const keys = "1–4 tabs · / filter · Enter source";
    this.foot = element(
      "footer",
      {},
      element("span", { text: statement(this.compared) }),
      element("span", { class: "keys", text: keys }),
    );
    const warnings = [...before, ...after].map((trace) => warning(trace, () => this.show("runs"))).filter(Boolean);
    document.body.append(
      element("div", { class: "sides" }, side("Before", before), side("After", after)),
      ...warnings.slice(0, 2),
      element("p", { class: "sentence", text: clean(this.compared.summary) }),
      ...this.compared.gates.map((gate) => element("p", { class: gate.failed ? "gate failed" : "gate", text: clean(gate.text) })),
      totalsTable(this.compared),
      this.#tabBar(),
      this.pane,
      this.foot,
    );
  }

  #tabBar() {
    this.tabs = Object.entries(TABS).map(([name, title], index) =>
      element("button", { type: "button", role: "tab", "data-tab": name, "aria-controls": "pane", title: `key ${index + 1}`, text: title, onclick: () => this.show(name) }), // prettier-ignore
    );
    this.search = element("input", {
      type: "search",
      placeholder: "filter  /",
      "aria-label": "Show only files, functions and source lines that contain this text",
      oninput: () => this.#filter(),
    });
    const list = element("div", { class: "tabs", role: "tablist", onkeydown: (event) => this.#tabKey(event) }, ...this.tabs);
    return element("nav", {}, list, this.columns.element, this.measures, this.search);
  }

  /** Chooses the measure that lines and sources show. */
  measure(name) {
    const { compared, state } = this;
    state.measure = name;
    setChosen(this.measures, name);
    const size = ({ before, after }) => Math.max(Math.abs(before ?? 0), Math.abs(after ?? 0));
    state.longest = compared.lines.reduce((most, { changes }) => Math.max(most, changes[name] ? size(changes[name]) : 0), 0);
    this.lines.set(compared.lines.filter((row) => row.changes[name] || row.judged.length));
    this.source.refresh();
    this.address.remember();
  }

  #filter() {
    const term = this.search.value.trim().toLowerCase();
    this.lines.filter((row) => !term || mentions(row, term));
    this.source.filter(term);
    this.flame.filter(term);
    this.runs.losses.filter((row) => !term || `${row.name} ${row.text}`.toLowerCase().includes(term));
    this.address.remember();
  }

  /** Shows a tab. */
  show(name) {
    this.tab = name;
    for (const tab of this.tabs) {
      tab.setAttribute("aria-selected", String(tab.dataset.tab === name));
      tab.tabIndex = tab.dataset.tab === name ? 0 : -1;
    }
    this.pane.setAttribute("aria-label", TABS[name]);
    this.pane.replaceChildren(this.panes[name]);
    this.measures.hidden = name === "flame" || name === "runs";
    if (name === "flame") this.flame.draw();
    if (name === "source") this.source.shown();
    for (const table of this.#tables(name)) table.refresh();
    this.columns.refresh();
    this.address.remember();
  }

  #tables(name) {
    const { lines, source, runs } = this;
    return { lines: [lines], source: [source.files, source.table], runs: [runs.traces, runs.losses] }[name] ?? [];
  }

  /** Shows a line in both versions. */
  openSource(row) {
    this.address.together(() => {
      this.show("source");
      this.source.open(row);
    });
  }

  #tabKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const names = Object.keys(TABS);
    this.show(names[(names.indexOf(this.tab) + step + names.length) % names.length]);
    this.tabs[names.indexOf(this.tab)].focus();
  }

  #listen() {
    document.addEventListener("keydown", (event) => {
      const isField = event.target instanceof HTMLInputElement;
      if (event.key === "Escape" && isField) event.target.blur();
      else if (!isField && !event.ctrlKey && !event.metaKey && !event.altKey) this.#shortcut(event);
    });
  }

  #shortcut(event) {
    const name = Object.keys(TABS)[Number(event.key) - 1];
    if (name) {
      this.show(name);
      const pane = this.panes[name];
      (pane.matches(".table") ? pane : pane.querySelector("[tabindex='0'].table, [tabindex='0'].flame"))?.focus();
    } else if (event.key === "/") {
      event.preventDefault();
      this.search.focus();
      this.search.select();
    }
  }

  /** The parts of the address: tab, measure, filter, orders of the tab's tables, and the line that is selected there. */
  #parts() {
    const term = this.search.value.trim();
    const { measure } = this.state;
    return [
      ["tab", this.tab],
      ...(measure === this.firstMeasure ? [] : [["measure", measure]]),
      ...(term ? [["filter", term]] : []),
      ...tableParts(this.#tables(this.tab), this.#line()),
    ];
  }

  #line() {
    if (this.tab === "source") return this.source.line;
    const row = this.tab === "lines" ? this.lines.selected : null;
    return row ? comparedName(row) : null;
  }

  /** Shows what the address says. */
  #restore(wanted) {
    const measure = Object.keys(this.compared.titles()).find((name) => name === wanted.get("measure"));
    this.tab = Object.hasOwn(TABS, wanted.get("tab")) ? wanted.get("tab") : "lines";
    this.search.value = wanted.get("filter") ?? "";
    this.measure(measure ?? this.firstMeasure);
    this.show(this.tab);
    this.#filter();
    sortTables(this.#tables(this.tab), wanted);
    if (this.tab === "source") this.source.line = wanted.get("line");
    if (this.tab === "lines") selectLine(this.lines, this.lines.rows, wanted.get("line"), comparedName);
  }
}

function side(name, traces) {
  const more = traces.length > 1 ? `${name}: ${traces.length} runs, of which the first is shown` : name;
  return element("div", {}, element("span", { class: "dim", text: more }), heading(traces[0]));
}

/** The basis of the verdicts, and the first sentence of the advice. */
function statement({ statistics, advice }) {
  const { runs_before, runs_after, tests } = statistics;
  const means = Math.max(runs_before, runs_after) > 1 ? "Figures are means over the runs. " : "";
  return `${means}Verdicts are adjusted for ${decimal(tests, 0)} tests. ${clean(advice[0] ?? "").replace(/\. [^.]*:$/, ".")}`;
}

function mentions(row, term) {
  const { file, line } = placeOf(row);
  const texts = [`${file}:${line}`, row.function, row.before_function, row.source, row.before_source, row.status];
  return texts.some((each) => each !== null && String(each).toLowerCase().includes(term));
}

/** The runs and their losses. */
function runsPane(compared, traces, madeBy) {
  const rows = traces.map(({ info }, index) => ({ ...info, side: index < compared.runs[0] ? "before" : "after", index }));
  const lost = rows.flatMap((row) => row.losses.map((loss) => ({ ...loss, run: row.path })));
  const column = (key, title, width, text, more = {}) => ({ key, title, width, value: (row) => row[key], text, ...more });
  const runs = new Table(
    [
      column("side", "side", "60px", (row) => row.side),
      column("path", "trace", "minmax(120px, 1fr)", (row) => clean(row.path)),
      column("started_at", "started", "170px", (row) => clean((row.started_at ?? "").slice(0, 19).replace("T", " "))),
      column("wall_s", "seconds", "80px", (row) => (row.wall_s === null ? "" : decimal(row.wall_s, 2)), { align: "right" }), // prettier-ignore
      column("python", "Python", "70px", (row) => clean(row.python ?? "")),
      column("command", "command", "minmax(200px, 2fr)", (row) => clean((row.command ?? ["(not stored)"]).join(" ")), { style: "mono" }), // prettier-ignore
    ],
    { label: "Runs", sort: null },
  );
  const losses = new Table(
    [
      column("run", "trace", "minmax(100px, 200px)", (row) => clean(row.run)),
      column("severity", "", "60px", (row) => clean(row.severity)),
      column("name", "loss", "170px", (row) => clean(row.name)),
      column("count", "times", "70px", (row) => decimal(row.count, 0), { align: "right" }),
      column("text", "", "minmax(260px, 1fr)", (row) => clean(row.text)),
    ],
    { label: "Losses", sort: null, empty: "Nothing was lost.", decorate: (made, row) => row.severity !== "info" && made.classList.add("loss") }, // prettier-ignore
  );
  runs.set(rows);
  losses.set(lost);
  const advice = compared.advice.map((text, index) => element("p", { class: index ? "command" : "", text: clean(text) }));
  const by = element("p", { class: "dim", text: `Made by ${clean(madeBy)}.` });
  const head = element("div", {}, ...advice, by);
  return { element: element("div", { class: "pane-halves" }, head, runs.element, losses.element), traces: runs, losses };
}
