// The columns that lines and functions share, with what their figures mean.
import { bar, sparkline } from "./dom.js";
import { baseName, clean, decimal, percent } from "./format.js";

const SPARK = { width: 72, height: 15, pieces: 36 };

/** Seconds in a column: three decimals, fewer where totals are large; nothing for nothing. */
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

/** The stacked bar of a row: Python, native, system, and waiting where the bars show it. */
export function timeBar(row, state) {
  const parts = [
    ["python", row.python],
    ["native", row.native],
    ["system", row.system],
  ];
  if (state.waitInBars) parts.push(["wait", row.wait]);
  return bar(parts, state.longest);
}

export function placeColumn(state, width = "minmax(110px, 170px)") {
  return {
    key: "place",
    title: "line",
    hint: "file and line; Enter or a double click opens the source",
    width,
    value: (row) => `${baseName(row.file)}:${String(row.line).padStart(7)}`,
    fill: (cell, row) => {
      cell.textContent = `${clean(baseName(row.file))}:${row.line}`;
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
      hint: "share of all CPU time of the window",
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
      hint: "Python, native, system, and waiting if asked for; the longest bar is the largest line",
      width: "minmax(80px, 130px)",
      align: "graph",
      value: (row) => row.cpu + (state.waitInBars ? row.wait : 0),
      fill: (cell, row) => cell.append(timeBar(row, state)),
    });
  }
  if (has.cpu) {
    columns.push(number(state, "python", "Python s", "user CPU time in Python code", "68px", time));
    const hint =
      "user CPU time in builtins and extensions; a line's cell says in which libraries, over all that was recorded";
    columns.push({
      ...number(state, "native", "native s", hint, "66px", time),
      fill: (cell, row) => nativeCell(cell, row, state),
    });
    columns.push(number(state, "system", "system s", "CPU time in the kernel", "70px", time));
  }
  if (has.wait)
    columns.push({
      ...number(
        state,
        "wait",
        "wait s",
        "how long threads waited there: asleep, disk, CPU, GIL; summed over threads",
        "66px",
        time,
      ),
      fill: (cell, row) => waitCell(cell, row, state),
    });
  return columns;
}

/** A share in percent, heavier from 10 on. */
export function shareCell(cell, share) {
  cell.textContent = share > 0 ? decimal(share, 1) : "";
  cell.classList.toggle("much", share >= 10);
}

function nativeCell(cell, row, state) {
  cell.textContent = time(row.native, state);
  cell.title = (row.libraries ?? [])
    .map(([name, value]) => `${clean(name ?? "code in no file")} ${decimal(value, 3)} s`)
    .join(", ");
}

function waitCell(cell, row, state) {
  cell.textContent = time(row.wait, state);
  cell.title = [
    ["asleep", row.sleep],
    ["disk", row.disk],
    ["wanting the CPU", row.runnable],
    ["GIL", row.gil],
  ]
    .filter(([, value]) => value > 0)
    .map(([name, value]) => `${name} ${decimal(value, 3)} s`)
    .join(", ");
}

/** Growth with its course, and what the allocation samples and copies say. */
export function memoryColumns(state, { trend = true } = {}) {
  const { has } = state.trace;
  const columns = [];
  if (has.memory)
    columns.push(
      number(
        state,
        "growth",
        "growth MB",
        "allocated minus freed by the line, in the window (1 MB = 1,000,000 bytes)",
        "78px",
        mega,
      ),
    );
  if (has.memory && trend)
    columns.push({
      key: "trend",
      title: "trend",
      hint: "its growth over the window",
      width: "78px",
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
        "alive MB",
        "what it had allocated, whenever, of the memory alive at the window's peak; estimated",
        "68px",
        mega,
      ),
    );
  if (has.alloc)
    columns.push(
      number(state, "alloc", "allocated MB", "allocated in the window, freed or not; estimated", "92px", mega),
    );
  if (has.alloc)
    columns.push(
      number(
        state,
        "kept",
        "kept MB",
        "allocated in the window and alive at the end of its process; estimated",
        "66px",
        mega,
      ),
    );
  if (has.copy && state.whole.totals.copy > 0)
    columns.push(number(state, "copy", "copied MB", "copied by memcpy and memmove", "76px", mega));
  return columns;
}

/** What a trace says of GPUs: their time and memory, and what CUDA libraries were asked for. */
export function deviceColumns(state) {
  const { has } = state.trace;
  const columns = [];
  if (has.gpu) {
    const hint = "share of all GPU time of the window; ~ where the line was never at the GPU for as long as its driver averages over (over all that was recorded): right on average over many turns only";
    columns.push(
      {
        ...number(state, "gpu", "GPU %", hint, "58px"),
        fill: (cell, row) => gpuCell(cell, row, percent(row.gpu, state.now.totals.gpu)),
      },
      number(state, "gpuPeak", "GPU MB", "most memory that its process had on the GPU while the line was at it", "68px", mega),
    );
  }
  if (has.device) {
    columns.push(
      {
        ...number(state, "deviceCopy", "GPU copies MB", "what CUDA libraries were asked to copy there; pointing at a cell says in which direction", "106px"),
        fill: (cell, row) => copyCell(cell, row),
      },
      number(state, "device_sync", "GPU wait s", "time in calls that wait for a device; a call counts where it begins", "82px", fine),
    );
  }
  return columns;
}

/** Seconds of a call, which may be short. */
const fine = (value) => (value > 0 ? decimal(value, 3) : "");

function gpuCell(cell, row, share) {
  cell.textContent = row.gpu > 0 ? `${row.isShort ? "~" : ""}${decimal(share, 1)}` : "";
  if (row.gpu > 0) cell.title = `${decimal(row.gpu, 3)} s of GPU time`;
  cell.classList.toggle("much", share >= 10);
}

/** Names of the directions of copies, as the summary and the cells say them. */
export const DIRECTIONS = {
  h2d: "to device",
  d2h: "from device",
  d2d: "within devices",
  h2h: "within the host",
  unified: "in a direction that is not told",
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

/** The largest value of each piece, or what held when it began; from the growth at the window's start on. */
function held(values, changes, first, end, before) {
  let at = 0;
  let now = before;
  return values.map((value, piece) => {
    const stop = first + ((piece + 1) / values.length) * (end - first);
    while (at < changes.length && changes[at][0] < stop) now = changes[at++][1];
    return (value ?? now) - before;
  });
}
