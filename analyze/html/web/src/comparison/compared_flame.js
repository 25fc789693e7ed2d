// A flame graph of two versions: the width of a call is its cost in one version, its colour the change of the cost.
import { inclusive, sumUp } from "../figures.js";
import { baseName, clean, decimal } from "../format.js";
import { element } from "../widgets/dom.js";
import { DEEPEST, Icicle, LEAST_SHARE, choices, deepFrame, rareFrame, rareText, setChosen } from "../widgets/icicle.js";
import { KINDS, noStackName, codeBox, isNative, isShown, kindsOf, titlesOf } from "../flame.js";

const WIDTHS = { before: "width: before", after: "after" };
const SIDES = Object.keys(WIDTHS);
/** The folder of an installation is not part of a library's name: it may differ between the versions. */
const INSTALLED = /^.*\/(?:(?:site|dist)-packages|lib\/python[\d.]+t?)\//;

export class ComparedFlame extends Icicle {
  #kind;
  #width;

  /** `sides`: the traces before and after. */
  constructor(sides, compared) {
    super();
    this.sides = sides.map((traces) => traces.map((trace) => ({ trace, nodes: sumUp(trace, 0, trace.bins.count).nodes })));
    this.names = namesOf(compared);
    const [first, ...others] = sides.flat().map(kindsOf);
    this.kinds = first.filter((name) => others.every((kinds) => kinds.includes(name)));
    this.#kind = this.kinds[0];
    this.kindButtons = choices("Figure of the flame graph", titlesOf(this.kinds), (name) => {
      this.#kind = name;
      this.#width = null;
      this.draw();
    });
    this.widthButtons = choices("Version that determines the widths", WIDTHS, (name) => {
      this.#width = name;
      this.draw();
    });
    const [libraries, libraryLabel] = codeBox(this, "library code");
    const [natives, nativeLabel] = codeBox(this, "native functions");
    this.libraries = libraries;
    this.natives = natives;
    const legend = ["better", "worse"].map((name) =>
      element("span", { class: "share" }, element("i", { class: name }), name === "better" ? "less" : "more"),
    );
    this.furnish(this.kindButtons, this.widthButtons, libraryLabel, nativeLabel, ...legend);
  }

  draw() {
    setChosen(this.kindButtons, this.#kind);
    super.draw();
    setChosen(this.widthButtons, this.#width);
  }

  nothing() {
    return this.#kind ? "No samples on this side." : "No figure was recorded on both sides.";
  }

  text(data) {
    const { text } = KINDS[this.#kind];
    const change = data.before > 0 ? `${decimal(100 * (data.after / data.before - 1), 1)} %` : "new";
    return `${data.label ?? data.name}: ${text(data.before)} before, ${text(data.after)} after, ${data.after > 0 ? change : "removed"}`;
  }

  style(data) {
    if (data.style === "rare") return this.palette("--flame-rare");
    const delta = data.after - data.before;
    const share = this.most > 0 ? Math.sqrt(Math.min(Math.abs(delta) / this.most, 1)) : 0;
    return mixed(this.palette("--flame-same"), this.palette(delta < 0 ? "--flame-less" : "--flame-more"), share);
  }

  tree() {
    const kind = KINDS[this.#kind];
    if (!kind) return null;
    const root = frame("all", "all", "");
    this.sides.forEach((runs, side) => {
      for (const run of runs) this.#grow(root, run, side, kind, 1 / runs.length);
    });
    this.#width ??= root.values[0] > root.values[1] ? "before" : "after";
    const side = SIDES.indexOf(this.#width);
    const cut = { rare: 0, deep: 0 };
    const found = pruned(root, kind, side, root.values[side], cut, 0);
    this.rare.textContent = rareText(cut, root.values[side], 0);
    this.most = Math.max(...(found.children.length ? found.children : [found]).map((each) => Math.abs(each.after - each.before)), Math.abs(found.after - found.before)); // prettier-ignore
    return found;
  }

  /** Adds the calls of a run; each figure is multiplied by `part`. */
  #grow(root, { trace, nodes }, side, kind, part) {
    const own = new Float64Array(trace.nodeCount);
    for (let node = 0; node < own.length; node++) own[node] = Math.max(kind.own(nodes, node), 0) * part;
    const totals = inclusive(own, trace.parents);
    const made = new Array(trace.nodeCount);
    for (let node = 0; node < own.length; node++) {
      if (!totals[node]) continue;
      const parent = trace.parents[node] < 0 ? root : made[trace.parents[node]];
      const place = trace.places[node];
      const isVisible = place < 0 || isShown(trace, place, this.libraries.checked, this.natives.checked);
      made[node] = isVisible ? (place < 0 ? noPython(parent, trace) : this.#frame(parent, trace, place, side)) : parent;
      if (isVisible) made[node].values[side] += totals[node];
      if (trace.parents[node] < 0) root.values[side] += totals[node];
      for (const [name] of kind.leaves)
        if (!(made[node].isNative && name === "native")) addPart(made[node], name, side, nodes[name][node] * part);
    }
  }

  #frame(parent, trace, place, side) {
    const path = trace.files[trace.locations.file[place]];
    const name = trace.function_names[trace.locations.function[place]];
    const isOwn = trace.ownFunction[place] >= 0;
    const key = (side === 0 && isOwn && this.names.get(keyOf(path, name))) || keyOf(isOwn ? path : path.replace(INSTALLED, ""), name);
    let found = parent.byKey.get(key);
    if (!found) {
      const text = clean(name);
      found = frame(`${text}  ${clean(baseName(path))}`.trimEnd(), `${text}  ${clean(path)}`.trimEnd(), key);
      found.isNative = isNative(trace, place);
      parent.byKey.set(key, found);
    } else if (side === 1 && found.values[1] === 0) {
      found.label = `${clean(name)}  ${clean(path)}`;
      found.name = `${clean(name)}  ${clean(baseName(path))}`;
    }
    return found;
  }
}

const keyOf = (file, name) => `${file}\n${name}`;

/** The names in the new version of functions of the old one, according to the matched lines and files. */
function namesOf(compared) {
  const names = new Map();
  for (const { before, after } of compared.files) {
    if (!before || !after || before === after) continue;
    for (const { before_file, before_function } of compared.lines)
      if (before_file === before) names.set(keyOf(before, before_function ?? ""), keyOf(after, before_function ?? ""));
    names.set(keyOf(before, "<module>"), keyOf(after, "<module>"));
  }
  for (const row of compared.lines) {
    if (row.before_function !== null && row.function !== null)
      names.set(keyOf(row.before_file, row.before_function), keyOf(row.file, row.function));
  }
  return names;
}

function frame(name, label, key) {
  return { name, label, key, values: [0, 0], byKey: new Map(), parts: new Map() };
}

/** The frame of samples without a Python stack. */
function noPython(root, trace) {
  if (!root.byKey.has("")) root.byKey.set("", frame(noStackName(trace), noStackName(trace), ""));
  return root.byKey.get("");
}

function addPart(made, name, side, value) {
  if (!(value > 0)) return;
  if (!made.parts.has(name)) made.parts.set(name, [0, 0]);
  made.parts.get(name)[side] += value;
}

/** The frame in the format of the flame graph library, with the width of one side. Calls below LEAST_SHARE of the `whole` are one
 * frame, those below a frame at DEEPEST another; `cut` adds both up. */
function pruned({ name, label, values, byKey, parts }, kind, side, whole, cut, depth) {
  const least = whole * LEAST_SHARE;
  const isKept = (each) => each[side] >= least && each[side] > 0;
  const children = [];
  const small = [0, 0];
  const deep = [0, 0];
  const leaveOut = (both, sums) => both.forEach((value, index) => (sums[index] += value));
  for (const child of byKey.values()) {
    if (!isKept(child.values)) leaveOut(child.values, small);
    else if (depth < DEEPEST) children.push(pruned(child, kind, side, whole, cut, depth + 1));
    else leaveOut(child.values, deep);
  }
  for (const [part, title] of kind.leaves) {
    const both = parts.get(part);
    if (both && isKept(both)) children.push({ name: title, value: both[side], before: both[0], after: both[1] });
    else if (both) leaveOut(both, small);
  }
  if (isKept(small)) {
    children.push({ ...rareFrame(small[side], whole), before: small[0], after: small[1] });
    cut.rare += small[side];
  }
  if (deep[side] > 0) {
    children.push({ ...deepFrame(deep[side], whole), before: deep[0], after: deep[1] });
    cut.deep += deep[side];
  }
  const [before, after] = values;
  return { name, label, search: label.toLowerCase(), value: values[side], before, after, children };
}

/** A colour between two (#rrggbb each). */
function mixed(one, other, share) {
  const parts = [one, other].map((each) => [1, 3, 5].map((at) => Number.parseInt(each.slice(at, at + 2), 16)));
  const found = parts[0].map((value, index) => Math.round(value + (parts[1][index] - value) * share));
  return `rgb(${found.join(",")})`;
}
