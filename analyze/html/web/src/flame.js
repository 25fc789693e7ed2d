// Flame graphs of CPU time, waiting, live memory and allocations, as icicles: callers above, callees below.
import flamegraph from "d3-flame-graph";
import { select } from "d3-selection";
import { inclusive } from "./figures.js";
import { decimal, clean, baseName, megabytes, percent, seconds } from "./format.js";
import { element } from "./dom.js";

const LEAST_SHARE = 0.0005; // of the whole: smaller calls are left out
const DEEPEST = 400;
const FRAME = 18;

const sum = (names) => (nodes, node) => names.reduce((total, name) => total + nodes[name][node], 0);

/** What a flame graph can show: its figure, what parts of a call's own figure are drawn below it, and its unit. */
const KINDS = {
  cpu: {
    title: "CPU time",
    has: "cpu",
    own: sum(["python", "native", "system"]),
    leaves: [
      ["native", "native code"],
      ["system", "kernel"],
    ],
    text: seconds,
  },
  wait: {
    title: "waiting",
    has: "wait",
    own: sum(["sleep", "disk", "runnable", "gil"]),
    leaves: [
      ["sleep", "asleep"],
      ["disk", "disk"],
      ["runnable", "wanting the CPU"],
      ["gil", "waiting for the GIL"],
    ],
    text: seconds,
  },
  live: { title: "alive at the peak", has: "alloc", own: sum(["live"]), leaves: [], text: megabytes },
  alloc: { title: "allocated", has: "alloc", own: sum(["alloc"]), leaves: [], text: megabytes },
};

export class Flame {
  #kind;
  #chart = null;
  #chosen = null;
  #term = "";

  constructor(state) {
    this.state = state;
    this.kinds = Object.keys(KINDS).filter(
      (name) => state.trace.has[KINDS[name].has] && (name !== "live" || state.trace.has.memory),
    );
    this.#kind = this.kinds[0];
    this.buttons = element(
      "div",
      { class: "choices", role: "radiogroup", "aria-label": "What the flame graph shows" },
      ...this.kinds.map((name) => this.#button(name)),
    );
    this.reset = element("button", { type: "button", text: "whole graph", onclick: () => this.#reset() });
    this.libraries = element("input", { type: "checkbox", checked: true, onchange: () => this.draw() });
    const libraries = element("label", {}, this.libraries, "library code");
    this.details = element("div", { class: "details", "aria-live": "polite" });
    this.holder = element("div", {
      class: "flame",
      tabindex: "0",
      role: "tree",
      "aria-label": "Flame graph: arrow keys choose a call, Enter zooms, Escape shows all",
      onkeydown: (event) => this.#key(event),
    });
    this.element = element(
      "div",
      { class: "pane-column" },
      element("div", { class: "tools" }, this.buttons, libraries, this.reset, this.details),
      this.holder,
    );
    new ResizeObserver(() => this.draw()).observe(this.holder);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  #button(name) {
    return element("button", {
      type: "button",
      role: "radio",
      "data-kind": name,
      text: KINDS[name].title,
      onclick: () => this.#choose(name),
    });
  }

  #choose(name) {
    this.#kind = name;
    this.draw();
  }

  #isVisible() {
    return this.holder.clientWidth > 0;
  }

  /** Highlights the calls whose name or file holds `term`. */
  filter(term) {
    this.#term = term.toLowerCase();
    this.draw();
  }

  /** Draws the calls of the state's window, if the graph is to be seen. */
  draw() {
    if (!this.#isVisible()) return;
    this.holder.dataset.kind = this.#kind ?? "";
    for (const button of this.buttons.children)
      button.setAttribute("aria-checked", String(button.dataset.kind === this.#kind));
    this.holder.replaceChildren();
    this.#chosen = null;
    this.#chart = null;
    this.details.textContent = "";
    const root = this.#kind && this.#tree(KINDS[this.#kind]);
    if (!root?.value) {
      const text = this.#kind
        ? "No samples in this window."
        : "Neither CPU time nor waits nor allocations were recorded.";
      this.holder.append(element("div", { class: "empty", text }));
      return;
    }
    this.root = root;
    this.palette = palette(this.holder);
    this.#chart = flamegraph()
      .width(this.holder.clientWidth - 2)
      .cellHeight(FRAME)
      .minFrameSize(1)
      .transitionDuration(0)
      .inverted(true)
      .sort((one, other) => other.data.value - one.data.value || (one.data.name < other.data.name ? -1 : 1))
      .tooltip(false)
      .label((d) => this.#label(d.data))
      .setDetailsHandler(
        (text) => void (this.details.textContent = text ?? (this.#chosen ? this.#label(this.#chosen.data) : "")),
      )
      .onClick((d) => this.#mark(d))
      .setColorMapper((d) => this.#colour(d.data));
    select(this.holder).datum(root).call(this.#chart);
  }

  #colour(data) {
    const isFound = !this.#term || (data.search ?? "").includes(this.#term);
    return this.palette(isFound ? `--flame-${data.style}` : "--flame-none");
  }

  #label(data) {
    const kind = KINDS[this.#kind];
    return `${data.label ?? data.name}: ${kind.text(data.value)}, ${decimal(percent(data.value, this.root.value), 1)} %`;
  }

  /** The tree of calls: frames of one function called from one place are one, whatever line they were at. */
  #tree(kind) {
    const { trace, now } = this.state;
    const own = new Float64Array(trace.nodeCount);
    for (let node = 0; node < own.length; node++) own[node] = Math.max(kind.own(now.nodes, node), 0);
    const totals = inclusive(own, trace.parents);
    const root = { name: "all", style: "all", value: 0, byKey: new Map(), parts: new Map() };
    const made = new Array(trace.nodeCount);
    for (let node = 0; node < own.length; node++) {
      if (!totals[node]) continue;
      const parent = trace.parents[node] < 0 ? root : made[trace.parents[node]];
      const place = trace.places[node];
      const isShown = place >= 0 && this.#isShown(place);
      made[node] = isShown ? this.#frame(parent, place) : parent;
      if (isShown) made[node].value += totals[node];
      if (trace.parents[node] < 0) root.value += totals[node];
      for (const [name] of kind.leaves) {
        const part = now.nodes[name][node];
        if (part > 0) made[node].parts.set(name, (made[node].parts.get(name) ?? 0) + part);
      }
    }
    return pruned(root, kind, root.value * LEAST_SHARE, 0);
  }

  /** Calls of the import system are left out, as in tracebacks: they are many, and say nothing. */
  #isShown(place) {
    const { trace } = this.state;
    if (trace.ownFunction[place] >= 0) return true;
    return this.libraries.checked && !trace.files[trace.locations.file[place]].startsWith("<frozen importlib");
  }

  #frame(parent, place) {
    const { trace } = this.state;
    const { file, function: name, first_line } = trace.locations;
    const key = `${file[place]}:${name[place]}:${first_line[place]}`;
    let frame = parent.byKey.get(key);
    if (!frame) {
      const path = trace.files[file[place]];
      const text = clean(trace.function_names[name[place]]);
      const label = `${text}  ${clean(path)}:${first_line[place]}`;
      frame = {
        name: `${text}  ${clean(baseName(path))}`,
        label,
        search: label.toLowerCase(),
        style: trace.ownFunction[place] >= 0 ? "own" : "library",
        value: 0,
        byKey: new Map(),
        parts: new Map(),
      };
      parent.byKey.set(key, frame);
    }
    return frame;
  }

  #reset() {
    if (this.#chart) this.#chart.resetZoom();
    this.#mark(null);
  }

  #frames() {
    return this.holder.querySelectorAll("g.frame");
  }

  #mark(node) {
    this.#chosen = node;
    for (const frame of this.#frames()) frame.classList.toggle("chosen", frame.__data__ === node);
    this.details.textContent = node ? this.#label(node.data) : "";
  }

  #key(event) {
    if (!this.#chart || event.ctrlKey || event.metaKey || event.altKey) return;
    const top = this.#frames()[0]?.__data__;
    const now = this.#chosen ?? top;
    const beside = (step) => now.parent && shown(now.parent)[shown(now.parent).indexOf(now) + step];
    const next = {
      ArrowDown: () => (this.#chosen ? shown(now)[0] : top),
      ArrowUp: () => now.parent,
      ArrowLeft: () => beside(-1),
      ArrowRight: () => beside(1),
    }[event.key];
    if (next) {
      event.preventDefault();
      const found = next();
      if (found) this.#mark(found);
    } else if (event.key === "Enter" && this.#chosen) {
      const chosen = this.#chosen;
      this.#chart.zoomTo(chosen);
      this.#mark(chosen);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      this.#reset();
    }
  }
}

/** The colours of the moment, by the name of their variable. */
function palette(holder) {
  const style = getComputedStyle(holder);
  const known = new Map();
  return (name) => known.get(name) ?? known.set(name, style.getPropertyValue(name).trim()).get(name);
}

/** The callees that are drawn, from left to right. */
function shown(node) {
  return (node.children ?? []).filter((child) => child.value > 0).sort((one, other) => one.x0 - other.x0);
}

/** The frame as the library wants it, without calls under `least`. */
function pruned(frame, kind, least, depth) {
  const children =
    depth > DEEPEST
      ? []
      : [...frame.byKey.values()]
          .filter((child) => child.value >= least)
          .map((child) => pruned(child, kind, least, depth + 1));
  for (const [name, title] of kind.leaves) {
    const value = frame.parts.get(name) ?? 0;
    if (value >= least && value > 0) children.push({ name: title, style: name, value });
  }
  const { name, label, search, style, value } = frame;
  return { name, label, search, style, value, children };
}
