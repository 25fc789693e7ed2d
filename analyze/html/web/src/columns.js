// The columns that lines and functions share, with descriptions of their figures.
import { bar, element, sparkline } from "./widgets/dom.js";
import { PARTS, WAITS } from "./figures.js";
import { baseName, clean, decimal, percent } from "./format.js";

/** What the word means. */
export const UNCLASSIFIED = "user CPU time of which it is unknown whether it is Python’s or native; the losses say why";

/** Columns that narrow tables leave out, the first ones first: those whose figures other columns or a cell's text have too. */
export const SPARE = [
  ...["system", "python", "native", "trend", "copy", "deviceCopy", "alloc", "gpuPeak", "live", "device_sync", "kept"],
  ...["growth", "disk", "runnable", "gil", "sleep", "tid", "start_s", "end_s", "exit_status", "peak_rss_bytes"],
];

const SPARK = { width: 60, height: 15, pieces: 36 };

/** Seconds in a column: three decimals, or one if totals are large; empty for 0. */
const time = (value, state) =>
  value > 0 ? decimal(value, state.now.totals.cpu + state.now.totals.wait < 100 ? 3 : 1) : "";
const mega = (value) =>
  Math.abs(value) >= 5e4 ? decimal(value / 1e6, Math.abs(value) < 1e8 ? 1 : 0) : value ? "0.0" : "";

const number = (state, key, title, hint, width, text) => ({
  key,
  title,
  hint,
  width,
  align: "right",
  value: (row) => row[key],
  text: (row) => text(row[key], state),
});

/** The stacked bar of a row: the classes of CPU time, and waiting if it is switched on. */
export function timeBar(row, state) {
  const parts = PARTS.map(([name]) => [name, row[name]]);
  if (state.waitInBars) parts.push(["wait", row.wait]);
  return bar(parts, state.longest);
}

export function placeColumn(state, width = "minmax(116px, 170px)") {
  return {
    key: "place",
    title: "line",
    hint: "file and line; press Enter or double-click to open the source",
    width,
    value: (row) => `${baseName(row.file)}:${String(row.line).padStart(7)}`,
    fill: (cell, row) => {
      cell.classList.add("place"); // a long name is cut, the number of the line is not
      cell.append(element("span", { text: clean(baseName(row.file)) }), element("span", { text: `:${row.line}` }));
      cell.title = `${clean(row.file)}:${row.line}, ${clean(row.function)}`;
    },
  };
}

/** CPU share, bar, and times. */
export function timeColumns(state) {
  const { has } = state.trace;
  const columns = [];
  if (has.cpu) {
    columns.push({
      key: "cpu",
      title: "CPU %",
      hint: "share of all CPU time in the window",
      width: "58px",
      align: "right",
      value: (row) => row.cpu,
      fill: (cell, row) => shareCell(cell, percent(row.cpu, state.now.totals.cpu)),
    });
  }
  if (has.cpu || has.wait) {
    columns.push({
      key: "bar",
      title: "time",
      hint: "Python, native and system time, and waiting time if switched on; the longest bar is the largest line",
      width: "minmax(60px, 130px)",
      align: "graph",
      value: (row) => row.cpu + (state.waitInBars ? row.wait : 0),
      fill: (cell, row) => {
        cell.append(timeBar(row, state));
        cell.title = [...PARTS, ["wait", "wait"]]
          .map(([key, name]) => [name, row[key]])
          .filter(([, value]) => value > 0)
          .map(([name, value]) => `${name} ${decimal(value, 3)} s`)
          .join(", ");
      },
    });
  }
  if (has.cpu) {
    columns.push(number(state, "python", "Python s", "user CPU time in Python code", "66px", time));
    const hint =
      "user CPU time in builtins and extensions; point at a cell to see its libraries, over the whole recording";
    columns.push({
      ...number(state, "native", "native s", hint, "66px", time),
      fill: (cell, row) => nativeCell(cell, row, state),
    });
    if (state.whole.totals.unclassified > 0) columns.push(unclassifiedColumn(state));
    columns.push(number(state, "system", "system s", "CPU time in the kernel", "66px", time));
  }
  if (has.wait)
    columns.push({
      ...number(
        state,
        "wait",
        "wait s",
        "time that threads waited there: sleep, disk, runnable (without a CPU), GIL; summed over threads",
        "58px",
        time,
      ),
      fill: (cell, row) => waitCell(cell, row, state),
    });
  return columns;
}

const unclassifiedColumn = (state) =>
  number(state, "unclassified", "unclassified s", UNCLASSIFIED, "92px", time);

/** A share in percent; bold from 10 % on. */
export function shareCell(cell, share) {
  cell.textContent = share > 0 ? decimal(share, 1) : "";
  cell.classList.toggle("much", share >= 10);
}

function nativeCell(cell, row, state) {
  cell.textContent = time(row.native, state);
  cell.title = (row.libraries ?? [])
    .map(([name, value]) => `${clean(name ?? "unknown library")} ${decimal(value, 3)} s`)
    .join(", ");
}

function waitCell(cell, row, state) {
  cell.textContent = time(row.wait, state);
  cell.title = WAITS.map(([name, word]) => [word, row[name]])
    .filter(([, value]) => value > 0)
    .map(([name, value]) => `${name} ${decimal(value, 3)} s`)
    .join(", ");
}

/** Growth and its trend, allocations and copies. */
export function memoryColumns(state, { trend = true } = {}) {
  const { has } = state.trace;
  const columns = [];
  if (has.memory)
    columns.push(
      number(
        state,
        "growth",
        "growth MB",
        "bytes allocated minus bytes freed by the line in the window (1 MB = 1,000,000 bytes)",
        "76px",
        mega,
      ),
    );
  if (has.memory && trend)
    columns.push({
      key: "trend",
      title: "trend",
      hint: "growth over the window",
      width: "64px",
      align: "graph",
      unsorted: true,
      value: (row) => row.growth,
      fill: (cell, row) => trendCell(cell, row, state),
    });
  if (has.alloc && has.memory)
    columns.push(
      number(
        state,
        "live",
        "at peak MB",
        "memory allocated here at any time and still alive at the peak of the window; estimated",
        "80px",
        mega,
      ),
    );
  if (has.alloc)
    columns.push(
      number(state, "alloc", "allocated MB", "memory allocated in the window, freed or not; estimated", "92px", mega),
    );
  if (has.alloc)
    columns.push(
      number(
        state,
        "kept",
        "at end MB",
        "memory allocated in the window and still alive at the end of its process; estimated",
        "70px",
        mega,
      ),
    );
  if (has.copy && state.whole.totals.copy > 0)
    columns.push(number(state, "copy", "copied MB", "bytes copied by memcpy and memmove", "72px", mega));
  return columns;
}

/** GPU time and memory, and calls of CUDA libraries. */
export function deviceColumns(state) {
  const { has } = state.trace;
  const columns = [];
  if (has.gpu) {
    const hint = "share of all GPU time in the window; ~ = estimate: in the whole recording, the line never used the GPU for as long as its driver averages over, so only the mean of many uses is right";
    columns.push(
      {
        ...number(state, "gpu", "GPU %", hint, "58px"),
        fill: (cell, row) => gpuCell(cell, row, percent(row.gpu, state.now.totals.gpu)),
      },
      number(state, "gpuPeak", "GPU MB", "most memory that its process had on the GPU while the line used it", "68px", mega),
    );
  }
  if (has.device) {
    columns.push(
      {
        ...number(state, "deviceCopy", "GPU copies MB", "bytes that CUDA libraries were asked to copy; point at a cell to see the directions", "106px"),
        fill: (cell, row) => copyCell(cell, row),
      },
      number(state, "device_sync", "GPU wait s", "time in calls that wait for a device; a call counts in the window in which it begins", "82px", fine),
    );
  }
  return columns;
}

/** Seconds of calls, which may be short. */
const fine = (value) => (value > 0 ? decimal(value, 3) : "");

function gpuCell(cell, row, share) {
  cell.textContent = row.gpu > 0 ? `${row.isShort ? "~" : ""}${decimal(share, 1)}` : "";
  if (row.gpu > 0) cell.title = `${decimal(row.gpu, 3)} s of GPU time`;
  cell.classList.toggle("much", share >= 10);
}

/** Titles of the directions of copies, for the summary and the cells. */
export const DIRECTIONS = {
  h2d: "to device",
  d2h: "from device",
  d2d: "within devices",
  h2h: "within the host",
  unified: "in an unknown direction",
};

function copyCell(cell, row) {
  cell.textContent = mega(row.deviceCopy);
  const parts = Object.entries(DIRECTIONS).filter(([name]) => row[name] > 0);
  cell.title = parts.map(([name, title]) => `${decimal(row[name] / 1e6, 3)} MB ${title}`).join(", ");
  if (row.device_copy > 0) cell.title += `; ${decimal(row.device_copy, 3)} s in the calls`;
}

function trendCell(cell, row, state) {
  const changes = state.trends.get(row.id);
  if (!changes) return;
  const { first, end } = state.now;
  const values = new Array(SPARK.pieces).fill(null);
  let before = 0;
  for (const [bin, sum] of changes) {
    if (bin < first) before = sum;
    else if (bin < end) {
      const piece = Math.floor(((bin - first) / (end - first)) * SPARK.pieces);
      if (values[piece] === null || Math.abs(sum) >= Math.abs(values[piece])) values[piece] = sum;
      values.last = sum;
    }
  }
  if (values.last === undefined) return;
  cell.append(sparkline(held(values, changes, first, end, before), SPARK.width, SPARK.height));
}

/** The largest value of each piece, or the value at its beginning, relative to the growth at the start of the window. */
function held(values, changes, first, end, before) {
  let at = 0;
  let now = before;
  return values.map((value, piece) => {
    const stop = first + ((piece + 1) / values.length) * (end - first);
    while (at < changes.length && changes[at][0] < stop) now = changes[at++][1];
    return (value ?? now) - before;
  });
}
