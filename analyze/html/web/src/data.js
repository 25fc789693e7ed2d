// The document that the page holds, as typed arrays. analyze/html/ writes it, docs/design/html.md describes it.
import { unzlibSync } from "fflate";

/** Whole numbers out of base64, deflated, seven bits a byte; folded ones are signed. */
export function unpacked(text, isSigned = false) {
  const bytes = unzlibSync(Uint8Array.from(atob(text), (each) => each.charCodeAt(0)));
  let count = 0;
  for (const byte of bytes) count += byte < 128;
  const numbers = new Float64Array(count);
  for (let at = 0, index = 0; at < bytes.length; index++) {
    let value = 0;
    let unit = 1;
    while (bytes[at] > 127) {
      value += (bytes[at++] - 128) * unit;
      unit *= 128;
    }
    value += bytes[at++] * unit;
    numbers[index] = isSigned ? (value % 2 ? -(value + 1) / 2 : value / 2) : value;
  }
  return numbers;
}

/** A sparse table: keys, bins and values of its rows, in order of key, then bin. */
function series({ keys, bins, values }) {
  const steps = unpacked(keys);
  const table = {
    keys: new Uint32Array(steps.length),
    bins: new Uint32Array(steps.length),
    values: unpacked(values, true),
  };
  const binSteps = unpacked(bins);
  for (let row = 0, key = 0, bin = 0; row < steps.length; row++) {
    bin = (steps[row] || row === 0 ? 0 : bin) + binSteps[row];
    key += steps[row];
    table.keys[row] = key;
    table.bins[row] = bin;
  }
  return table;
}

const all = (packed) => Object.fromEntries(Object.entries(packed).map(([name, each]) => [name, series(each)]));

/** One trace of the document, ready to be summed up over any window. */
export class Trace {
  constructor(entry) {
    Object.assign(this, entry);
    this.series = all(entry.series);
    this.halves = all(entry.halves);
    this.threadSeries = all(entry.thread_series);
    const events = entry.info.events;
    this.has = {
      cpu: events.cpu !== null,
      wait: events.wait !== null,
      memory: events.memory !== null && entry.memory.footprint !== null,
      alloc: events.alloc !== null,
      copy: events.copy !== null,
    };
    this.#readCalls(entry);
    this.#findOwners(new Set(entry.user_files));
    const libraries = new Map(entry.libraries.map((each) => [`${each.line}:${each.file}`, each.libraries]));
    for (const row of this.lines) row.libraries = libraries.get(`${row.line}:${row.file}`);
  }

  #readCalls({ nodes }) {
    const steps = unpacked(nodes.parents);
    const places = unpacked(nodes.locations);
    this.nodeCount = nodes.count;
    this.parents = Int32Array.from(steps, (step, node) => (step ? node - step : -1));
    this.places = Int32Array.from(places, (place) => place - 1);
  }

  /** For each node: the line and the function that it is charged to, and whether it is the first call of its function. */
  #findOwners(userFiles) {
    const { file, function: name, first_line, line } = this.locations;
    const isUser = this.files.map((each) => userFiles.has(each));
    const lineIds = new Map();
    const functionIds = new Map();
    this.lines = [];
    this.functions = [];
    const lineOf = new Int32Array(file.length).fill(-1);
    const functionOf = new Int32Array(file.length).fill(-1);
    for (let place = 0; place < file.length; place++) {
      if (!isUser[file[place]]) continue;
      const names = {
        file: this.files[file[place]],
        fileId: file[place],
        function: this.functionName(place),
        firstLine: first_line[place],
      };
      lineOf[place] = idOf(lineIds, `${file[place]}:${line[place]}`, this.lines, { ...names, line: line[place] });
      const key = `${file[place]}:${name[place]}:${first_line[place]}`;
      functionOf[place] = idOf(functionIds, key, this.functions, { ...names, line: first_line[place] });
    }
    this.lineOfNode = new Int32Array(this.nodeCount).fill(-1);
    this.functionOfNode = new Int32Array(this.nodeCount).fill(-1);
    this.isFirstCall = new Uint8Array(this.nodeCount);
    this.ownFunction = functionOf;
    const depths = new Int32Array(this.functions.length);
    const path = [];
    for (let node = 0; node < this.nodeCount; node++) {
      const parent = this.parents[node];
      while (path.length && path[path.length - 1] !== parent) this.#leave(path.pop(), depths);
      const place = this.places[node];
      const isOwn = place >= 0 && lineOf[place] >= 0;
      this.lineOfNode[node] = isOwn ? lineOf[place] : parent >= 0 ? this.lineOfNode[parent] : -1;
      this.functionOfNode[node] = isOwn ? functionOf[place] : parent >= 0 ? this.functionOfNode[parent] : -1;
      if (isOwn) this.isFirstCall[node] = depths[functionOf[place]]++ === 0;
      path.push(node);
    }
  }

  #leave(node, depths) {
    const place = this.places[node];
    if (place >= 0 && this.ownFunction[place] >= 0) depths[this.ownFunction[place]]--;
  }

  functionName(place) {
    return this.function_names[this.locations.function[place]];
  }

  /** Time in seconds from the start of the recording at which bin ``index`` begins. */
  edge(index) {
    return this.bins.origin_s + index * this.bins.width_s;
  }
}

function idOf(ids, key, rows, row) {
  let id = ids.get(key);
  if (id === undefined) {
    id = rows.length;
    ids.set(key, id);
    rows.push({ id, ...row });
  }
  return id;
}

/** The document of this page. */
export function readDocument() {
  return JSON.parse(document.getElementById("data").textContent);
}
