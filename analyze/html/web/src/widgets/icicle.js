// An icicle graph of calls, callers above and callees below, for mouse and keyboard. Subclasses define what it shows.
import flamegraph from "d3-flame-graph";
import { select } from "d3-selection";
import { element } from "./dom.js";
import { decimal, percent } from "../format.js";

export const LEAST_SHARE = 0.0005; // of the whole: smaller calls of a frame are drawn as one
export const DEEPEST = 400;
const FRAME = 18;
const LEAST_PIXELS = 0.4; // a call of LEAST_SHARE in a graph of 800 pixels; narrower ones would be blank

const isRare = (data) => Number(data.style === "rare");

/** The frame for the calls of a frame that are smaller than LEAST_SHARE; `whole`: the graph's value. */
export function rareFrame(value, whole) {
  const name = `rare stacks ${decimal(percent(value, whole), 0)} %`;
  return { name, label: `rare stacks (calls of less than ${100 * LEAST_SHARE} % each)`, search: "", style: "rare", value };
}

/** The frame for the calls of a frame that are deeper than DEEPEST. */
export function deepFrame(value, whole) {
  const name = `deeper calls ${decimal(percent(value, whole), 0)} %`;
  return { name, label: `deeper calls (the graph has ${DEEPEST} rows)`, search: "", style: "rare", value };
}

/** What the tab says of calls that are not drawn: rare and deep ones of the `whole` graph, and the number of stacks whose callers
 * the page lacks. */
export function rareText({ rare, deep }, whole, short) {
  const texts = [];
  if (rare >= whole / 200 && whole > 0)
    texts.push(`grey at the end of a row: rare stacks, less than ${100 * LEAST_SHARE} % each, together ${decimal(percent(rare, whole), 0)} %`);
  if (deep > 0)
    texts.push(`calls in more than ${DEEPEST} rows are one grey frame, "deeper calls", together ${decimal(percent(deep, whole), 0)} %`);
  if (short) texts.push(`${decimal(short, 0)} rare stacks are shown without their callers`);
  return texts.join("; ");
}

/** A group of buttons of which one is chosen; `titles` by name. */
export function choices(label, titles, choose) {
  const buttons = Object.entries(titles).map(([name, title]) =>
    element("button", { type: "button", role: "radio", "data-kind": name, text: title, onclick: () => choose(name) }),
  );
  return element("div", { class: "choices", role: "radiogroup", "aria-label": label }, ...buttons);
}

/** Shows which button is chosen. */
export function setChosen(buttons, chosen) {
  for (const button of buttons.children) button.setAttribute("aria-checked", String(button.dataset.kind === chosen));
}

/**
 * Subclasses define `tree()` (null = nothing to draw), `text(data)`, `style(data)` (a colour), and `nothing()` (the text in
 * place of an empty graph).
 */
export class Icicle {
  #chart = null;
  #chosen = null;
  #width = 0;
  #term = "";

  /** Creates the element, with `tools` above the graph. */
  furnish(...tools) {
    this.reset = element("button", { type: "button", text: "whole graph", onclick: () => this.#reset() });
    this.details = element("div", { class: "details", "aria-live": "polite" });
    this.rare = element("div", { class: "rare note" });
    this.holder = element("div", {
      class: "flame",
      tabindex: "0",
      role: "tree",
      "aria-label": "Flame graph: arrow keys choose a call, Enter zooms in, Escape shows the whole graph",
      onkeydown: (event) => this.#key(event),
    });
    this.element = element(
      "div",
      { class: "pane-column" },
      element("div", { class: "tools" }, ...tools, this.reset, this.details),
      this.rare,
      this.holder,
    );
    // A redraw loses the chosen call, and drawing changes the height of the holder. So redraw only if the width changes.
    new ResizeObserver(() => this.holder.clientWidth !== this.#width && this.draw()).observe(this.holder);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Highlights the calls whose name or file contains `term`. */
  filter(term) {
    this.#term = term.toLowerCase();
    this.draw();
  }

  /** Draws the tree if the graph is visible. */
  draw() {
    if (!(this.holder.clientWidth > 0)) return;
    this.#width = this.holder.clientWidth;
    this.holder.replaceChildren();
    this.#chosen = null;
    this.#chart = null;
    this.details.textContent = "";
    this.rare.textContent = "";
    this.root = this.tree();
    if (!this.root?.value) {
      this.holder.append(element("div", { class: "empty", text: this.nothing() }));
      return;
    }
    this.palette = palette(this.holder);
    this.#chart = flamegraph()
      .width(this.holder.clientWidth - 2)
      .cellHeight(FRAME)
      .minFrameSize(LEAST_PIXELS)
      .transitionDuration(0)
      .inverted(true)
      .sort(({ data: one }, { data: other }) => isRare(one) - isRare(other) || other.value - one.value || (one.name < other.name ? -1 : 1))
      .tooltip(false)
      .label((d) => this.text(d.data))
      .setDetailsHandler(
        (text) => void (this.details.textContent = text ?? (this.#chosen ? this.text(this.#chosen.data) : "")),
      )
      .onClick((d) => this.#choose(d))
      .setColorMapper((d) => this.#colour(d.data));
    select(this.holder).datum(this.root).call(this.#chart);
  }

  #colour(data) {
    const isFound = !this.#term || (data.search ?? "").includes(this.#term);
    return isFound ? this.style(data) : this.palette("--flame-none");
  }

  #reset() {
    if (this.#chart) this.#chart.resetZoom();
    this.#choose(null);
  }

  #frames() {
    return this.holder.querySelectorAll("g.frame");
  }

  #choose(node) {
    this.#chosen = node;
    for (const frame of this.#frames()) frame.classList.toggle("chosen", frame.__data__ === node);
    this.details.textContent = node ? this.text(node.data) : "";
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
      if (found) this.#choose(found);
    } else if (event.key === "Enter" && this.#chosen) {
      const chosen = this.#chosen;
      this.#chart.zoomTo(chosen);
      this.#choose(chosen);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      this.#reset();
    }
  }
}

/** The current colours by the name of their CSS variable. */
function palette(holder) {
  const style = getComputedStyle(holder);
  const known = new Map();
  return (name) => known.get(name) ?? known.set(name, style.getPropertyValue(name).trim()).get(name);
}

/** The visible callees from left to right. */
function shown(node) {
  return (node.children ?? []).filter((child) => child.value > 0).sort((one, other) => one.x0 - other.x0);
}
