// Sums of the samples in a window: by line, function, thread and call.

/** The classes of waiting: name of the figure, and the word for it in every text. */
export const WAITS = [
  ["sleep", "sleep"],
  ["disk", "disk"],
  ["runnable", "runnable"],
  ["gil", "GIL"],
];
/** The classes of CPU time: name of the figure, and the word for it. They add up to it. */
export const PARTS = [
  ["python", "Python"],
  ["native", "native"],
  ["unclassified", "unclassified"],
  ["system", "system"],
];
const SECONDS = [...PARTS.map(([name]) => name), "gc", ...WAITS.map(([name]) => name)];
const BYTES = ["growth", "copy", "alloc", "kept", "live"];
const COPIES = ["h2d", "d2h", "d2d", "h2h", "unified"];

/** The series of a trace that add up: name, key of the series, unit. Those of GPUs exist only if one was used. */
function summed({ has }) {
  const names = [...SECONDS, ...(has.gpu ? ["gpu"] : []), ...(has.device ? ["device_copy", "device_sync"] : [])];
  const sizes = ["growth", "copy", ...(has.device ? COPIES : [])];
  return [...names.map((name) => [name, `${name}_us`, 1e-6]), ...sizes.map((name) => [name, `${name}_bytes`, 1])];
}

/** The figures of a row. */
const measures = (trace) => [...new Set([...summed(trace).map(([name]) => name), ...BYTES])];

/** Adds the values of the rows with first <= bin < end, times `unit`, to `sums` by key. */
function addUp(table, first, end, sums, unit = 1) {
  const { keys, bins, values } = table;
  for (let row = 0; row < keys.length; row++) {
    if (bins[row] >= first && bins[row] < end) sums[keys[row]] += values[row] * unit;
  }
}

/** The bin in [first, end) with the highest footprint; -1 = unknown. */
function highestBin(levels, first, end) {
  let best = -1;
  for (let bin = first; levels && bin < end; bin++) if (best < 0 || levels[bin] > levels[best]) best = bin;
  return best >= 0 && levels[best] > 0 ? best : -1;
}

/** The highest level in [first, end); null = not recorded. */
function highest(levels, first, end) {
  const bin = highestBin(levels, first, end);
  return levels ? (bin < 0 ? 0 : levels[bin]) : null;
}

/** Figures by node of the stacks that end there, in seconds and bytes. */
function byNode(trace, first, end, peakBin) {
  const sums = Object.fromEntries(measures(trace).map((name) => [name, new Float64Array(trace.nodeCount)]));
  for (const [name, series, unit] of summed(trace)) addUp(trace.series[series], first, end, sums[name], unit);
  const { alloc_bytes, unlived_bytes, gone_bytes, kept_bytes } = trace.halves;
  addUp(alloc_bytes, 2 * first, 2 * end, sums.alloc);
  addUp(kept_bytes, 2 * first, 2 * end, sums.kept);
  if (peakBin >= 0) {
    addUp(alloc_bytes, 0, 2 * peakBin + 1, sums.live);
    addUp(unlived_bytes, 0, 2 * peakBin + 1, sums.live, -1);
    addUp(gone_bytes, 0, 2 * peakBin + 1, sums.live, -1);
  }
  return sums;
}

function completed(row) {
  row.cpu = PARTS.reduce((sum, [name]) => sum + row[name], 0);
  row.wait = WAITS.reduce((sum, [name]) => sum + row[name], 0);
  row.deviceCopy = COPIES.reduce((sum, name) => sum + (row[name] ?? 0), 0);
  return row;
}

/** Sets the figures of rows to the sums over the nodes that `ownerOf` assigns to them. */
function charge(rows, ownerOf, nodes) {
  for (const [name, sums] of Object.entries(nodes)) {
    for (const row of rows) row[name] = 0;
    for (let node = 0; node < sums.length; node++) {
      if (sums[node] && ownerOf[node] >= 0) rows[ownerOf[node]][name] += sums[node];
    }
  }
  rows.forEach(completed);
  for (const row of rows) row.live = Math.max(row.live, 0);
}

/** Sets the GPU memory of rows to the highest value of the nodes that `ownerOf` assigns to them; 0 if unknown. */
function chargePeaks(rows, ownerOf, table, first, end) {
  for (const row of rows) row.gpuPeak = 0;
  if (!table) return;
  const { keys, bins, values } = table;
  for (let place = 0; place < keys.length; place++) {
    const row = rows[ownerOf[keys[place]]];
    if (row && bins[place] >= first && bins[place] < end) row.gpuPeak = Math.max(row.gpuPeak, values[place]);
  }
}

/** Values by node that include those of callees. Callees come after their callers. */
export function inclusive(own, parents) {
  const sums = own.slice();
  for (let node = sums.length - 1; node >= 0; node--) if (parents[node] >= 0) sums[parents[node]] += sums[node];
  return sums;
}

/** CPU time by node. */
const cpuOf = (nodes) => nodes.python.map((_, node) => PARTS.reduce((sum, [name]) => sum + nodes[name][node], 0));

function cumulate(trace, nodes) {
  const sums = inclusive(cpuOf(nodes), trace.parents);
  for (const row of trace.functions) row.cumulative = 0;
  for (let node = 0; node < sums.length; node++) {
    if (trace.isFirstCall[node]) trace.functions[trace.ownFunction[trace.places[node]]].cumulative += sums[node];
  }
}

/** The most that can be alive at one moment (live), and at the ends of the processes (kept): what is alive is estimated
 * from samples, and the footprint is counted. Several processes end at different moments, which have no most. */
function mostAlive(trace, peak) {
  const live = peak > 0 ? peak : Infinity;
  return { live, kept: trace.info.processes === 1 ? live : Infinity };
}

function totalsOf(trace, nodes, first, end) {
  const totals = Object.fromEntries(
    Object.entries(nodes).map(([name, sums]) => [name, sums.reduce((sum, value) => sum + value, 0)]),
  );
  const isWhole = first === 0 && end === trace.bins.count;
  const rss = highest(trace.memory.rss, first, end);
  const mark =
    isWhole && trace.query.from_s === null && trace.query.to_s === null && !trace.query.process.length
      ? trace.memory.peak_rss_mark
      : null;
  const peak = trace.has.memory ? highest(trace.memory.footprint, first, end) : null;
  return Object.assign(completed(totals), {
    kept: Math.min(totals.kept, mostAlive(trace, peak).kept),
    idle: WAITS.reduce((sum, [name]) => sum + nodes[name][0], 0), // of threads without a Python stack: node 0
    peak,
    pythonPeak: trace.has.memory ? highest(trace.memory.python, first, end) : null,
    gpuPeak: highest(trace.gpu?.memory, first, end),
    rss: rss === null && mark === null ? null : Math.max(rss ?? 0, mark ?? 0),
  });
}

function threads(trace, first, end) {
  const sums = Object.fromEntries(SECONDS.map((name) => [name, new Float64Array(trace.threads.length)]));
  for (const name of SECONDS) addUp(trace.threadSeries[`${name}_us`], first, end, sums[name], 1e-6);
  trace.threads.forEach((row, index) => {
    for (const name of SECONDS) row[name] = sums[name][index];
    completed(row);
  });
  for (const process of trace.processes) for (const name of [...SECONDS, "cpu", "wait"]) process[name] = 0;
  const known = new Map(trace.processes.map((each) => [each.process, each]));
  for (const row of trace.threads) {
    const process = known.get(row.process);
    if (process) for (const name of [...SECONDS, "cpu", "wait"]) process[name] += row[name];
  }
}

/** Sums up the bins from first to end (exclusive) into the rows of the trace. Returns the window with nodes and totals. */
export function sumUp(trace, first, end) {
  const peakBin = trace.has.memory ? highestBin(trace.memory.footprint, first, end) : -1;
  const nodes = byNode(trace, first, end, peakBin);
  charge(trace.lines, trace.lineOfNode, nodes);
  charge(trace.functions, trace.functionOfNode, nodes);
  chargePeaks(trace.lines, trace.lineOfNode, trace.peaks.gpu_peak_bytes, first, end);
  chargePeaks(trace.functions, trace.functionOfNode, trace.peaks.gpu_peak_bytes, first, end);
  cumulate(trace, nodes);
  threads(trace, first, end);
  const totals = totalsOf(trace, nodes, first, end);
  const limits = Object.entries(mostAlive(trace, totals.peak));
  for (const row of [...trace.lines, ...trace.functions])
    for (const [name, most] of limits) row[name] = Math.min(row[name], most);
  const own = trace.lines.reduce((sum, row) => sum + row.cpu, 0);
  return { first, end, peakBin, nodes, totals, foreign: totals.cpu - own };
}

/** Names lines that several functions share after the function with the most CPU time, then allocated memory. */
export function nameLines(trace, nodes) {
  const weights = new Float64Array(trace.ownLine.length);
  const cpu = cpuOf(nodes);
  trace.ownerOfNode.forEach((place, node) => {
    if (place >= 0) weights[place] += cpu[node] + nodes.alloc[node] * 1e-18;
  });
  const most = new Float64Array(trace.lines.length).fill(-1);
  trace.ownLine.forEach((line, place) => {
    if (line < 0 || weights[place] <= most[line]) return;
    most[line] = weights[place];
    trace.lines[line].function = trace.function_names[trace.locations.function[place]];
  });
}

/** Cumulative growth by line over the whole recording: a list of [bin, bytes] where it changes. */
export function growthByLine(trace) {
  const { keys, bins, values } = trace.series.growth_bytes;
  const trends = new Map();
  for (let row = 0; row < keys.length; row++) {
    const line = trace.lineOfNode[keys[row]];
    if (line < 0) continue;
    if (!trends.has(line)) trends.set(line, []);
    trends.get(line).push([bins[row], values[row]]);
  }
  for (const changes of trends.values()) {
    changes.sort((one, other) => one[0] - other[0]);
    let sum = 0;
    for (const change of changes) change[1] = sum += change[1];
  }
  return trends;
}

/** CPU time by bin: an array for each of PARTS, in seconds. */
export function cpuByBin(trace) {
  return PARTS.map(([name]) => {
    const { bins, values } = trace.series[`${name}_us`];
    const sums = new Float64Array(trace.bins.count);
    for (let row = 0; row < bins.length; row++) sums[bins[row]] += values[row] * 1e-6;
    return sums;
  });
}
