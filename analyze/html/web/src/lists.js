// The tables of functions, leaks, threads, processes and losses.
import { element, sparkline } from "./widgets/dom.js";
import { PARTS, WAITS } from "./figures.js";
import { baseName, clean, decimal, megabytes, percent, perSecond, seconds } from "./format.js";
import { Table } from "./widgets/table.js";
import { SPARE, deviceColumns, memoryColumns, placeColumn, timeColumns } from "./columns.js";

const plain = (key, title, width, text = (row) => clean(String(row[key] ?? "")), more = {}) => ({
  key,
  title,
  width,
  value: (row) => row[key],
  text,
  ...more,
});
const right = (key, title, width, text, more = {}) => plain(key, title, width, text, { align: "right", ...more });
const fixed =
  (key, digits = 3) =>
  (row) =>
    row[key] > 0 ? decimal(row[key], digits) : "";
const mega = (key) => (row) => (row[key] === null || row[key] === undefined ? "" : decimal(row[key] / 1e6, 1));

export function lineTable(state, open) {
  const text = (row) => clean((state.lineText(row.file, row.line) ?? "").trim());
  const columns = [
    placeColumn(state),
    { key: "source", title: "source", width: "minmax(300px, 1fr)", style: "code", unsorted: true, text },
    ...timeColumns(state),
    ...deviceColumns(state),
    ...memoryColumns(state),
  ];
  return new Table(columns, {
    label: "Lines",
    spare: SPARE,
    sort: { key: state.trace.has.cpu ? "cpu" : state.trace.has.memory ? "growth" : "wait", down: true },
    open,
    empty: "No line of the program’s own code has samples.",
  });
}

export function functionTable(state, open) {
  const all = right(
    "cumulative",
    "all %",
    "58px",
    (row) => (row.cumulative > 0 ? decimal(percent(row.cumulative, state.now.totals.cpu), 1) : ""),
    { hint: "CPU time including callees; recursion is counted once" },
  );
  const time = timeColumns(state).map((column) =>
    column.key === "cpu" ? { ...column, title: "self %", hint: "CPU time without callees" } : column,
  );
  const columns = [
    plain("function", "function", "minmax(160px, 1fr)", (row) => clean(row.function), { style: "mono" }),
    { ...placeColumn(state), title: "defined at" },
    ...(state.trace.has.cpu ? [time[0], all, ...time.slice(1)] : time),
    ...deviceColumns(state),
    ...memoryColumns(state, { trend: false }),
  ];
  return new Table(columns, {
    label: "Functions",
    spare: SPARE,
    sort: { key: state.trace.has.cpu ? "cpu" : "growth", down: true },
    open,
    empty: "No function of the program’s own code has samples.",
  });
}

/** Native time by library over the whole recording, and the line that uses each one most. */
export function libraryTable(state, open) {
  const found = new Map();
  for (const [file, lines] of Object.entries(state.trace.libraries)) {
    for (const [line, libraries] of Object.entries(lines)) {
      for (const [library, native] of libraries) {
        const row = found.get(library) ?? { library, native: 0, lines: 0, most: 0 };
        found.set(library, row);
        row.native += native;
        row.lines++;
        if (native > row.most) Object.assign(row, { most: native, file, line: Number(line) });
      }
    }
  }
  const rows = [...found.values()].filter((row) => row.native > 0);
  const whole = rows.reduce((sum, row) => sum + row.native, 0);
  const table = new Table(
    [
      plain("library", "library", "minmax(160px, 1fr)", (row) => clean(row.library ?? "unknown"), { style: "mono" }),
      right("native", "native s", "76px", (row) => decimal(row.native, 3), { hint: "native time in the whole recording" }),
      right("share", "native %", "76px", (row) => decimal(percent(row.native, whole), 1), { value: (row) => row.native }),
      right("lines", "lines", "60px", (row) => decimal(row.lines, 0)),
      plain("used", "most of it for", "minmax(160px, 1fr)", (row) => clean(`${baseName(row.file)}:${row.line}`)),
    ],
    { label: "Libraries", sort: { key: "native", down: true }, open, empty: "No native time was recorded." },
  );
  table.set(rows);
  return table;
}

/** The calls that lead to a leak's line, the innermost first: of those that do, the ones with most of the memory that it kept,
 * whatever the line has called then. */
function callPath({ trace, whole }, { file, line }) {
  const row = trace.lines.find((each) => each.file === file && each.line === line);
  const sums = new Map();
  for (let node = 0; row && node < trace.nodeCount; node++) {
    const kept = whole.nodes.kept[node];
    if (trace.lineOfNode[node] !== row.id || !(kept > 0)) continue;
    const path = callersOf(trace, node);
    sums.set(path, (sums.get(path) ?? 0) + kept);
  }
  return [...sums].reduce((most, each) => (each[1] > most[1] ? each : most), ["", 0])[0];
}

/** The functions that led to the line that a node is charged to. */
function callersOf(trace, node) {
  const isOwn = (each) => trace.places[each] >= 0 && trace.ownLine[trace.places[each]] >= 0;
  let at = node;
  while (!isOwn(at)) at = trace.parents[at];
  const names = [];
  for (at = trace.parents[at]; at >= 0; at = trace.parents[at]) {
    const place = trace.places[at];
    if (place >= 0 && trace.locations.line[place] >= 0) names.push(trace.function_names[trace.locations.function[place]]);
  }
  return names.map(clean).join(" ‹ ");
}

export function leakTable(state, open) {
  const columns = [
    placeColumn(state),
    plain("source", "source", "minmax(240px, 1fr)", (row) => clean((row.source ?? "").trim()), { style: "code" }),
    plain("function", "function", "minmax(90px, 200px)", (row) => clean(row.function), { style: "mono" }),
    right("bytes_per_s", "rate", "80px", (row) => perSecond(row.bytes_per_s)),
    right("error_bytes_per_s", "± rate", "80px", (row) => perSecond(row.error_bytes_per_s), { hint: "standard error" }),
    right("probability", "probability %", "92px", (row) => decimal(100 * row.probability, 1)),
    right("mallocs", "allocated", "74px", (row) => decimal(row.mallocs, 0), { hint: "judged samples of allocations" }),
    right("frees", "freed", "60px", (row) => decimal(row.frees, 0), { hint: "judged samples of allocations that were freed" }),
    right("live_at_end_bytes", "at end MB", "82px", mega("live_at_end_bytes")),
    plain("path", "called by", "minmax(110px, 1fr)", (row) => row.path, { style: "mono", hint: "the calls that lead to most of the memory that the line kept" }),
    plain("type", "type", "74px"),
    plain("allocator", "allocator", "80px"),
    {
      key: "trend",
      title: "alive",
      width: "74px",
      align: "graph",
      unsorted: true,
      fill: (cell, row) =>
        row.trend.length > 1 &&
        cell.append(
          sparkline(
            row.trend.map(([, value]) => value),
            72,
            15,
          ),
        ),
    },
  ];
  const table = new Table(columns, {
    label: "Leaks",
    sort: { key: "bytes_per_s", down: true },
    open,
    spare: ["allocator", "error_bytes_per_s", "mallocs", "frees", "type", "function", "path"],
    empty: state.trace.leaks === null ? "Leaks are unknown, because allocations were not recorded." : "No line leaks.",
  });
  const note = element(
    "div",
    { class: "tools" },
    element("div", { class: "details", text: "Leaks are judged over the whole recording, regardless of the window." }),
  );
  table.set((state.trace.leaks ?? []).map((row) => ({ ...row, path: callPath(state, row) })));
  return { table, element: element("div", { class: "pane-column" }, note, table.element) };
}

export function threadTables(state) {
  const waits = state.trace.has.wait
    ? [
        right("wait", "wait s", "66px", fixed("wait")),
        ...WAITS.map(([name, word]) => right(name, `${word} s`, name === "runnable" ? "80px" : "66px", fixed(name))),
      ]
    : [];
  const cpu = state.trace.has.cpu
    ? [
        right("cpu", "CPU s", "66px", fixed("cpu")),
        ...PARTS.filter(([name]) => name !== "unclassified" || state.whole.totals.unclassified > 0).map(([name, word]) =>
          right(name, `${word} s`, name === "unclassified" ? "92px" : "66px", fixed(name)),
        ),
      ]
    : [];
  const span = [
    right("start_s", "start", "76px", (row) => seconds(row.start_s)),
    right("end_s", "end", "76px", (row) => seconds(row.end_s)),
  ];
  const threads = new Table(
    [
      right("process", "process", "66px", (row) => String(row.process ?? "")),
      right("thread", "thread", "60px", (row) => String(row.thread ?? "")),
      right("tid", "tid", "70px", (row) => String(row.tid ?? "")),
      plain("name", "name", "minmax(90px, 1fr)"),
      ...span,
      ...cpu,
      ...waits,
    ],
    {
      label: "Threads",
      spare: SPARE,
      sort: { key: state.trace.has.cpu ? "cpu" : "wait", down: true },
      empty: "No thread was recorded.",
    },
  );
  const command = (row) =>
    "  ".repeat(row.depth) + clean(row.command ? row.command.join(" ") : (row.executable ?? "(command not stored)"));
  const processes = new Table(
    [
      right("process", "process", "66px", (row) => String(row.process)),
      right("pid", "pid", "70px", (row) => String(row.pid ?? "")),
      plain("cause", "started by", "76px"),
      plain("command", "command", "minmax(120px, 1fr)", command, { style: "code", unsorted: true }),
      ...span,
      plain("end", "ended by", "76px"),
      right("exit_status", "status", "60px", (row) => String(row.exit_status ?? "")),
      right("threads", "threads", "66px", (row) => decimal(row.threads, 0)),
      ...cpu,
      right("peak_bytes", "peak MB", "76px", mega("peak_bytes")),
      right("peak_rss_bytes", "peak RSS MB", "94px", mega("peak_rss_bytes")),
    ],
    { label: "Processes", spare: SPARE, empty: "No process was recorded." },
  );
  return { threads, processes, element: element("div", { class: "pane-halves" }, threads.element, processes.element) };
}

/** A setting with its unit: the names of those in nanoseconds and bytes say so. Others are as they are. */
export function readable(name, value) {
  const number = /^\d{1,15}$/.test(value) ? Number(value) : null;
  if (number === null || !number) return value;
  if (name.endsWith("_ns")) return number < 1e6 ? `${decimal(number / 1e3, 0)} µs` : seconds(number / 1e9);
  if (name.endsWith("_bytes")) return number < 1e6 ? `${decimal(number / 1e3, 0)} KB` : megabytes(number);
  return value;
}

/** The tab about the recording: losses, settings and marks. */
export function recording(state, madeBy) {
  const { trace } = state;
  const losses = new Table(
    [
      plain("severity", "severity", "70px"),
      plain("name", "name", "minmax(120px, 220px)", undefined, { style: "mono" }),
      right("count", "count", "80px", (row) => decimal(row.count, 0)),
      plain("text", "what it means", "minmax(300px, 1fr)"),
    ],
    { label: "Losses", empty: "Nothing was lost.", decorate: (made, row) => made.classList.add(row.severity) },
  );
  losses.set(trace.info.losses);
  const events = Object.entries(trace.info.events).map(([name, count]) => [
    `${name} samples`,
    count === null ? "not recorded" : decimal(count, 0),
  ]);
  const marks = trace.marks.map(({ what, text, t_s, end_s }) => [
    what,
    `${text} ${seconds(t_s)}${end_s === null ? "" : ` to ${seconds(end_s)}`}`,
  ]);
  const rest = Object.entries(trace.settings)
    .filter(([name]) => name !== "command")
    .map(([name, value]) => [name, readable(name, value)]);
  const facts = [
    ["trace", trace.info.trace_id],
    ["time bins", `${decimal(trace.bins.count, 0)} of ${seconds(trace.bins.width_s)}`],
    ...events,
    ...marks,
    ...rest,
    ["page made by", madeBy],
  ];
  if (trace.short_stacks)
    facts.unshift(["rare stacks", `${decimal(trace.short_stacks, 0)} are shown without their callers`]);
  const rows = facts.map(([name, value]) => ({ name, value }));
  const settings = new Table(
    [
      plain("name", "name", "minmax(120px, 220px)"),
      plain("value", "value", "minmax(300px, 1fr)", undefined, { style: "mono" }),
    ],
    { label: "Recording" },
  );
  settings.set(rows);
  return { losses, settings, element: element("div", { class: "pane-halves" }, losses.element, settings.element) };
}
