// Decodes the document of the page into typed arrays. analyze/html/ writes it, docs/design/html.md describes it.
import { unzlibSync } from "fflate";

/** Integers from base64, zlib and variable-length encoding; signed ones are zigzag-encoded. */
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

/** A sparse table: keys, bins and values of its rows, sorted by key, then bin. */
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

/** One trace of the document, prepared for sums over any window. */
export class Trace {
  constructor(entry) {
    Object.assign(this, entry);
    this.sources = new Map(Object.entries(entry.sources)); // a Map, because a file may be called "constructor"
    this.series = all(entry.series);
    this.halves = all(entry.halves);
    this.threadSeries = all(entry.thread_series);
    this.peaks = all(entry.peaks ?? {});
    const events = entry.info.events;
    this.has = {
      cpu: events.cpu !== null,
      wait: events.wait !== null,
      memory: events.memory !== null && entry.memory.footprint !== null,
      alloc: events.alloc !== null,
      copy: events.copy !== null,
      gpu: entry.gpu !== undefined,
      device: entry.series.h2d_bytes !== undefined,
    };
    this.#readCalls(entry);
    this.#nameLocations(new Set(entry.user_files));
    this.#findOwners();
    this.#findFirstCalls();
    this.#nameLibraries();
    this.#markShort();
  }

  #readCalls({ nodes }) {
    const steps = unpacked(nodes.parents);
    const places = unpacked(nodes.locations);
    this.nodeCount = nodes.count;
    this.parents = Int32Array.from(steps, (step, node) => (step ? node - step : -1));
    this.places = Int32Array.from(places, (place) => place - 1);
  }

  /** Rows of the program's own lines and functions, and for each location the ids of its rows; -1 = none. */
  #nameLocations(userFiles) {
    const { file, function: name, first_line, line } = this.locations;
    const isUser = this.files.map((each) => userFiles.has(each));
    const lines = new Rows();
    const functions = new Rows();
    this.ownLine = new Int32Array(file.length).fill(-1);
    this.ownFunction = new Int32Array(file.length).fill(-1);
    for (let place = 0; place < file.length; place++) {
      if (!isUser[file[place]]) continue;
      const names = { file: this.files[file[place]], function: this.function_names[name[place]] };
      this.ownLine[place] = lines.idOf(`${file[place]}:${line[place]}`, { ...names, line: line[place] });
      const key = `${file[place]}:${name[place]}:${first_line[place]}`;
      this.ownFunction[place] = functions.idOf(key, { ...names, line: first_line[place] });
    }
    this.lines = lines.rows;
    this.functions = functions.rows;
  }

  /** For each node: the innermost location of the program's own code, its line and its function, which are charged; -1 = none. */
  #findOwners() {
    this.ownerOfNode = new Int32Array(this.nodeCount).fill(-1);
    for (let node = 0; node < this.nodeCount; node++) {
      const [place, parent] = [this.places[node], this.parents[node]];
      if (place >= 0 && this.ownLine[place] >= 0) this.ownerOfNode[node] = place;
      else if (parent >= 0) this.ownerOfNode[node] = this.ownerOfNode[parent];
    }
    this.lineOfNode = this.ownerOfNode.map((place) => (place < 0 ? -1 : this.ownLine[place]));
    this.functionOfNode = this.ownerOfNode.map((place) => (place < 0 ? -1 : this.ownFunction[place]));
  }

  /** For each node: is it a call of a function that is not among its callers? Nodes are in depth-first order. */
  #findFirstCalls() {
    const depths = new Int32Array(this.functions.length);
    const path = [];
    const functionAt = (node) => (this.places[node] >= 0 ? this.ownFunction[this.places[node]] : -1);
    this.isFirstCall = new Uint8Array(this.nodeCount);
    for (let node = 0; node < this.nodeCount; node++) {
      while (path.length && path.at(-1) !== this.parents[node]) {
        const left = functionAt(path.pop());
        if (left >= 0) depths[left]--;
      }
      const called = functionAt(node);
      if (called >= 0) this.isFirstCall[node] = depths[called]++ === 0;
      path.push(node);
    }
  }

  #nameLibraries() {
    const libraries = new Map(Object.entries(this.libraries));
    for (const row of this.lines) row.libraries = libraries.get(row.file)?.[row.line];
  }

  /** Flags the lines and functions that never used the GPU for as long as its driver averages over. */
  #markShort() {
    const keyOf = (parts) => JSON.stringify(parts);
    const lines = new Set(this.gpu?.short.lines.map(keyOf));
    const functions = new Set(this.gpu?.short.functions.map(keyOf));
    for (const row of this.lines) row.isShort = lines.has(keyOf([row.file, row.line]));
    for (const row of this.functions) row.isShort = functions.has(keyOf([row.file, row.function, row.line]));
  }

  /** Time in seconds from the start of the recording at which bin ``index`` begins. */
  edge(index) {
    return this.bins.origin_s + index * this.bins.width_s;
  }
}

/** Rows with ids; each row is created once. */
class Rows {
  #ids = new Map();
  rows = [];

  /** The id of the row with this key; a new row is created from `row` if there is none. */
  idOf(key, row) {
    if (!this.#ids.has(key)) {
      this.#ids.set(key, this.rows.length);
      this.rows.push({ id: this.rows.length, ...row });
    }
    return this.#ids.get(key);
  }
}

/** The document of this page. */
export function readDocument() {
  return JSON.parse(document.getElementById("data").textContent);
}
