// Flame graphs of CPU time, waiting time, live memory, GPU time and allocations.
import { PARTS, WAITS, inclusive } from "./figures.js";
import { decimal, clean, baseName, megabytes, percent, seconds } from "./format.js";
import { element } from "./widgets/dom.js";
import { DEEPEST, Icicle, LEAST_SHARE, choices, deepFrame, rareFrame, rareText, setChosen } from "./widgets/icicle.js";

const sum = (names) => (nodes, node) => names.reduce((total, name) => total + nodes[name][node], 0);

/** The kinds of flame graphs: the figure, the parts of a call's own figure that are drawn below it, and its text. */
export const KINDS = {
  cpu: {
    title: "CPU time",
    has: "cpu",
    own: sum(PARTS.map(([name]) => name)),
    leaves: [
      ["native", "native code"],
      ["unclassified", "unclassified"],
      ["system", "kernel"],
    ],
    text: seconds,
  },
  wait: {
    title: "waiting",
    has: "wait",
    own: sum(WAITS.map(([name]) => name)),
    leaves: WAITS,
    text: seconds,
  },
  live: { title: "alive at the peak", has: "alloc", own: sum(["live"]), leaves: [], text: megabytes },
  gpu: { title: "GPU time", has: "gpu", own: sum(["gpu"]), leaves: [], text: seconds },
  alloc: { title: "allocated", has: "alloc", own: sum(["alloc"]), leaves: [], text: megabytes },
};

/** The kinds that a trace has figures for. */
export function kindsOf(trace) {
  return Object.keys(KINDS).filter((name) => trace.has[KINDS[name].has] && (name !== "live" || trace.has.memory));
}

/** The titles of kinds by their names. */
export function titlesOf(kinds) {
  return Object.fromEntries(kinds.map((name) => [name, KINDS[name].title]));
}

/** A checkbox that hides some of the code in a graph, and its label. */
export function codeBox(graph, title) {
  const box = element("input", { type: "checkbox", checked: true, onchange: () => graph.draw() });
  return [box, element("label", {}, box, title)];
}

export class Flame extends Icicle {
  #kind;

  constructor(state) {
    super();
    this.state = state;
    const kinds = kindsOf(state.trace);
    this.#kind = kinds[0];
    this.buttons = choices("Figure of the flame graph", titlesOf(kinds), (name) => {
      this.#kind = name;
      this.draw();
    });
    const [libraries, libraryLabel] = codeBox(this, "library code");
    const [natives, nativeLabel] = codeBox(this, "native functions");
    this.libraries = libraries;
    this.natives = natives;
    this.furnish(this.buttons, libraryLabel, nativeLabel);
  }

  draw() {
    this.holder.dataset.kind = this.#kind ?? "";
    setChosen(this.buttons, this.#kind);
    super.draw();
  }

  nothing() {
    return this.#kind ? "No samples in this window." : "No CPU time, waits or allocations were recorded.";
  }

  style(data) {
    return this.palette(`--flame-${data.style}`);
  }

  text(data) {
    const kind = KINDS[this.#kind];
    return `${data.label ?? data.name}: ${kind.text(data.value)}, ${decimal(percent(data.value, this.root.value), 1)} %`;
  }

  /** The tree of calls: frames of one function with the same caller are merged, regardless of their line. */
  tree() {
    const kind = KINDS[this.#kind];
    if (!kind) return null;
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
      const isVisible = place < 0 || isShown(trace, place, this.libraries.checked, this.natives.checked);
      made[node] = isVisible ? (place < 0 ? noPython(parent, trace) : this.#frame(parent, place)) : parent;
      if (isVisible) made[node].value += totals[node];
      if (trace.parents[node] < 0) root.value += totals[node];
      for (const [name] of kind.leaves) {
        const part = now.nodes[name][node];
        if (part > 0 && !(made[node].isNative && name === "native")) made[node].parts.set(name, (made[node].parts.get(name) ?? 0) + part);
      }
    }
    const cut = { rare: 0, deep: 0 };
    const found = pruned(root, kind, root.value, cut, 0);
    this.rare.textContent = rareText(cut, root.value, trace.short_stacks);
    return found;
  }

  #frame(parent, place) {
    const { trace } = this.state;
    const { file, function: name, first_line } = trace.locations;
    const key = `${file[place]}:${name[place]}:${first_line[place]}`;
    let frame = parent.byKey.get(key);
    if (!frame) {
      const path = trace.files[file[place]];
      const text = clean(trace.function_names[name[place]]);
      const native = isNative(trace, place);
      const label = path ? `${text}  ${clean(path)}${native || !first_line[place] ? "" : `:${first_line[place]}`}` : text;
      frame = {
        name: `${text}  ${clean(baseName(path))}`.trimEnd(),
        label,
        search: label.toLowerCase(),
        style: native ? "native" : trace.ownFunction[place] >= 0 ? "own" : "library",
        isNative: native,
        value: 0,
        byKey: new Map(),
        parts: new Map(),
      };
      parent.byKey.set(key, frame);
    }
    return frame;
  }
}

/** What is known of samples without a Python stack: threads of libraries, which are often idle, and native code before and after
 * Python; or it is unknown what they ran. */
export const noStackName = (trace) => (trace.lacks_stacks ? "no Python stack" : "no Python code");

/** The frame of samples without a Python stack. */
function noPython(root, trace) {
  if (!root.byKey.has("")) {
    const name = noStackName(trace);
    const frame = { name, search: name.toLowerCase(), style: "library", value: 0, byKey: new Map(), parts: new Map() };
    root.byKey.set("", frame);
  }
  return root.byKey.get("");
}

/** Is the location a function of a native library? */
export const isNative = (trace, place) => trace.locations.line[place] < 0;

/** Is a frame shown? Frames of the import system are hidden, as in tracebacks, because they are many and not useful. */
export function isShown(trace, place, hasLibraries, hasNatives) {
  if (isNative(trace, place)) return hasNatives;
  if (trace.ownFunction[place] >= 0) return true;
  return hasLibraries && !trace.files[trace.locations.file[place]].startsWith("<frozen importlib");
}

/** The frame in the format of the flame graph library. Calls below LEAST_SHARE of the `whole` are one frame, those below a frame
 * at DEEPEST another; `cut` adds both up. */
function pruned(frame, kind, whole, cut, depth) {
  const least = whole * LEAST_SHARE;
  const children = [];
  let small = 0;
  let deep = 0;
  for (const child of frame.byKey.values()) {
    if (child.value < least) small += child.value;
    else if (depth < DEEPEST) children.push(pruned(child, kind, whole, cut, depth + 1));
    else deep += child.value;
  }
  for (const [name, title] of kind.leaves) {
    const value = frame.parts.get(name) ?? 0;
    if (value >= least && value > 0) children.push({ name: title, style: name, value });
    else small += value;
  }
  if (small >= least && small > 0) {
    children.push(rareFrame(small, whole));
    cut.rare += small;
  }
  if (deep > 0) {
    children.push(deepFrame(deep, whole));
    cut.deep += deep;
  }
  const { name, label, search, style, value } = frame;
  return { name, label, search, style, value, children };
}
