// The page of a trace: reads the document and coordinates window, tab and filter.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { Address, lineName, selectLine, sortTables, tableParts } from "./address.js";
import { readDocument, Trace } from "./data.js";
import { growthByLine, nameLines, sumUp } from "./figures.js";
import { Comparison } from "./comparison/comparison.js";
import { ColumnsButton } from "./widgets/columns_button.js";
import { element } from "./widgets/dom.js";
import { clean, decimal, percent, seconds, typed } from "./format.js";
import { Flame } from "./flame.js";
import { FleetPage } from "./fleet.js";
import { Source } from "./source.js";
import { Timeline } from "./timeline.js";
import { figures, findings, heading, warning } from "./summary.js";
import { functionTable, leakTable, libraryTable, lineTable, recording, threadTables } from "./lists.js";

const TABS = {
  lines: "Lines",
  functions: "Functions",
  flame: "Flame graph",
  source: "Source",
  leaks: "Leaks",
  threads: "Threads",
  recording: "Recording",
};

class Page {
  constructor(content) {
    const trace = new Trace({ ...content.traces[0], query: content.query });
    this.trace = trace;
    this.texts = new Map();
    this.state = {
      trace,
      trends: growthByLine(trace),
      lineText: (file, line) => this.#lineText(file, line),
      waitInBars: false,
    };
    this.state.whole = this.state.now = sumUp(trace, 0, trace.bins.count);
    nameLines(trace, this.state.whole.nodes);
    this.state.waitInBars =
      trace.has.wait && (!trace.has.cpu || longest(trace.lines, "wait") <= 3 * longest(trace.lines, "cpu"));
    this.address = new Address(
      () => this.#parts(),
      (wanted) => this.#restore(wanted),
    );
    this.#build(content);
    this.#listen();
    this.address.follow();
  }

  #build(content) {
    const { state, trace } = this;
    const open = (row) => this.openSource(row.file, row.line);
    this.lines = lineTable(state, open);
    this.functions = functionTable(state, open);
    this.libraries = libraryTable(state, open);
    this.flame = new Flame(state);
    this.source = new Source(state);
    this.leaks = leakTable(state, open);
    this.threads = threadTables(state);
    this.recording = recording(state, content.made_by);
    this.timeline = new Timeline(trace, (first, end) => this.choose(first, end));
    this.panes = {
      lines: this.lines.element,
      functions: element("div", { class: "pane-halves" }, this.functions.element, this.libraries.element),
      flame: this.flame.element,
      source: this.source.element,
      leaks: this.leaks.element,
      threads: this.threads.element,
      recording: this.recording.element,
    };
    const tables = Object.keys(TABS).flatMap((name) => this.#tables(name));
    for (const table of tables) table.changed = () => this.address.remember();
    this.columns = new ColumnsButton(tables, () => this.#tables(this.tab));
    this.figures = element("section", { class: "figures", "aria-label": "Totals of the window" });
    this.pane = element("main", { id: "pane", role: "tabpanel" });
    this.foot = element("footer", {});
    document.title = `${clean(trace.info.command ? trace.info.command.join(" ") : trace.info.path)} – scalene-trace`;
    document.body.append(
      heading(trace),
      ...[
        warning(trace, () => this.show("recording")),
        findings(trace, (file, line) => this.openSource(file, line)),
      ].filter(Boolean),
      this.figures,
      this.timeline.element,
      this.#windowBar(),
      this.#tabBar(),
      this.pane,
      this.foot,
    );
  }

  #windowBar() {
    const field = (name, label) =>
      element("input", {
        type: "text",
        inputmode: "decimal",
        size: "9",
        "aria-label": label,
        "data-field": name,
        onchange: () => this.#typed(),
      });
    this.from = field("from", "Window from, in seconds");
    this.to = field("to", "Window to, in seconds");
    this.whole = element("button", {
      type: "button",
      text: "whole time",
      onclick: () => this.choose(0, this.trace.bins.count),
    });
    this.hint = element("span", { class: "dim" });
    return element(
      "div",
      { class: "window" },
      element("label", {}, "window ", this.from, " to "),
      element("label", {}, this.to, " s"),
      this.whole,
      this.hint,
      this.timeline.reading,
    );
  }

  #tabBar() {
    this.tabs = Object.entries(TABS).map(([name, title], index) =>
      element(
        "button",
        {
          type: "button",
          role: "tab",
          "data-tab": name,
          "aria-controls": "pane",
          title: `key ${index + 1}`,
          onclick: () => this.show(name),
        },
        title + this.#count(name),
      ),
    );
    this.search = element("input", {
      type: "search",
      placeholder: "filter  /",
      "aria-label": "Show only files, functions and source lines that contain this text",
      oninput: () => this.#filter(),
    });
    const { has } = this.trace;
    this.bars =
      has.cpu && has.wait
        ? element(
            "label",
            { class: "bars" },
            element("input", { type: "checkbox", onchange: (event) => this.#setBars(event.target.checked) }),
            "waits in bars",
          )
        : null;
    if (this.bars) this.bars.firstChild.checked = this.state.waitInBars;
    const list = element(
      "div",
      { class: "tabs", role: "tablist", onkeydown: (event) => this.#tabKey(event) },
      ...this.tabs,
    );
    return element("nav", {}, list, this.columns.element, ...[this.bars].filter(Boolean), this.search);
  }

  #count(name) {
    const count = { leaks: this.trace.leaks?.length, recording: this.trace.info.losses.length }[name];
    return count ? ` ${count}` : "";
  }

  #setBars(isOn) {
    this.state.waitInBars = isOn;
    this.#drawTables();
  }

  #lineText(file, line) {
    if (!this.texts.has(file)) {
      const lines = new Map();
      for (const [first, text] of this.trace.sources.get(file) ?? [])
        text.split("\n").forEach((each, index) => lines.set(first + index, each));
      this.texts.set(file, lines);
    }
    return this.texts.get(file).get(line);
  }

  /** Makes the bins from first to end (exclusive) the window. */
  choose(first, end) {
    this.state.now = sumUp(this.trace, first, end);
    this.timeline.show(first, end);
    this.#drawAll();
    this.address.remember();
  }

  #drawAll() {
    const { trace, state } = this;
    const { first, end } = state.now;
    const width = trace.bins.width_s;
    const isWhole = first === 0 && end === trace.bins.count;
    this.from.value = typed(trace.edge(first), width);
    this.to.value = typed(trace.edge(end), width);
    this.whole.disabled = isWhole;
    this.hint.textContent = isWhole
      ? "drag across the chart to choose a window"
      : `${seconds((end - first) * width)}: --from ${this.from.value} --to ${this.to.value}`;
    this.figures.replaceChildren(...figures(trace, state.now));
    this.#drawTables();
    if (this.tab === "flame") this.flame.draw();
  }

  #drawTables() {
    const { state, trace } = this;
    state.longest = trace.lines.reduce((most, row) => Math.max(most, row.cpu + (state.waitInBars ? row.wait : 0)), 0);
    const amounts = ["cpu", "wait", "alloc", "live", "copy", "gpu", "gpuPeak", "deviceCopy", "device_sync"];
    const isSeen = (row) => row.growth || amounts.some((name) => row[name] > 0);
    this.lines.set(trace.lines.filter(isSeen));
    this.functions.set(trace.functions.filter((row) => isSeen(row) || row.cumulative > 0));
    this.threads.threads.set(trace.threads);
    this.threads.processes.set(trace.processes);
    this.source.refresh();
    this.#drawFoot();
  }

  #drawFoot() {
    const { totals, foreign, peakBin } = this.state.now;
    const texts = [];
    if (foreign > 0.0005 * totals.cpu)
      texts.push(
        `${decimal(percent(foreign, totals.cpu), 1)} % of the CPU time does not belong to any line of the program’s own code.`,
      );
    if (peakBin >= 0)
      texts.push(`The window’s peak is at ${typed(this.trace.edge(peakBin), this.trace.bins.width_s)} s.`);
    this.foot.replaceChildren(
      element("span", { text: texts.join(" ") }),
      element("span", { class: "keys", text: "1–7 tabs · / filter · Enter source · Esc whole time" }),
    );
  }

  #typed() {
    const [first, end] = [this.from, this.to].map((field) => this.timeline.binAt(Number(field.value)));
    if (Number.isFinite(first) && Number.isFinite(end) && end > first) this.choose(first, end);
    else this.#drawAll();
  }

  #filter() {
    const term = this.search.value.trim().toLowerCase();
    const holds = (row) => !term || `${row.file}:${row.line} ${row.function}`.toLowerCase().includes(term);
    this.lines.filter((row) => holds(row) || (this.#lineText(row.file, row.line) ?? "").toLowerCase().includes(term));
    this.functions.filter(holds);
    this.leaks.table.filter(holds);
    const { threads, processes } = this.threads;
    const { losses, settings } = this.recording;
    for (const table of [threads, processes, losses, settings, this.libraries]) table.filter((row) => !term || mentions(row, term));
    this.source.filter(term);
    this.flame.filter(term);
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
    if (name === "flame") this.flame.draw();
    if (name === "source") this.source.shown();
    for (const table of this.#tables(name)) table.refresh();
    this.columns.refresh();
    this.address.remember();
  }

  #tables(name) {
    return (
      {
        lines: [this.lines],
        functions: [this.functions, this.libraries],
        source: [this.source.files, this.source.table],
        leaks: [this.leaks.table],
        threads: [this.threads.threads, this.threads.processes],
        recording: [this.recording.losses, this.recording.settings],
      }[name] ?? []
    );
  }

  /** Shows a line of the source. */
  openSource(file, line) {
    this.address.together(() => {
      this.show("source");
      this.source.open(file, line);
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
      if (event.key === "Escape") {
        if (isField) event.target.blur();
        else this.choose(0, this.trace.bins.count);
      } else if (!isField && !event.ctrlKey && !event.metaKey && !event.altKey) this.#shortcut(event);
    });
  }

  #shortcut(event) {
    const name = Object.keys(TABS)[Number(event.key) - 1];
    if (name) {
      this.show(name);
      this.panes[name].querySelector("[tabindex='0'].table, [tabindex='0'].flame")?.focus();
      if (this.panes[name].matches(".table")) this.panes[name].focus();
    } else if (event.key === "/") {
      event.preventDefault();
      this.search.focus();
      this.search.select();
    }
  }

  /** The parts of the address: tab, window, filter, orders of the tab's tables, and the line that is selected there. */
  #parts() {
    const { first, end } = this.state.now;
    const isWhole = first === 0 && end === this.trace.bins.count;
    const term = this.search.value.trim();
    return [
      ["tab", this.tab],
      ...(isWhole ? [] : ["from", "to"].map((name) => [name, this[name].value])),
      ...(term ? [["filter", term]] : []),
      ...tableParts(this.#tables(this.tab), this.#line()),
    ];
  }

  #line() {
    if (this.tab === "source") return this.source.line;
    const row = this.#ofLines()?.selected;
    return row ? lineName(row) : null;
  }

  /** The table of the tab whose rows are lines of files, if there is one. */
  #ofLines() {
    return { lines: this.lines, functions: this.functions, leaks: this.leaks.table }[this.tab];
  }

  /** Shows what the address says. */
  #restore(wanted) {
    this.tab = Object.hasOwn(TABS, wanted.get("tab")) ? wanted.get("tab") : "lines";
    const [first, end] = ["from", "to"].map((name, place) =>
      wanted.has(name) ? this.timeline.binAt(Number(wanted.get(name))) : place * this.trace.bins.count,
    );
    const isWindow = end > first;
    const isFiltered = this.search.value !== (wanted.get("filter") ?? "");
    this.search.value = wanted.get("filter") ?? "";
    this.choose(isWindow ? first : 0, isWindow ? end : this.trace.bins.count);
    this.show(this.tab);
    if (isFiltered) this.#filter();
    sortTables(this.#tables(this.tab), wanted);
    if (this.tab === "source") this.source.line = wanted.get("line");
    else if (this.#ofLines()) selectLine(this.#ofLines(), this.#ofLines().rows, wanted.get("line"));
  }
}

/** Does a row of the threads, processes or recording tables contain `term`? */
function mentions({ name, text, value, tid, pid, cause, severity, command, executable, library, file }, term) {
  const texts = [name, text, value, tid, pid, cause, severity, executable, library, file, ...(command ?? [])];
  return texts.some((each) => each !== null && each !== undefined && String(each).toLowerCase().includes(term));
}

function longest(rows, name) {
  return rows.reduce((most, row) => Math.max(most, row[name]), 0);
}

const content = readDocument();
if (content.diff) new Comparison(content);
else if (content.fleet) new FleetPage(content);
else new Page(content);
document.documentElement.dataset.ready = "true";
