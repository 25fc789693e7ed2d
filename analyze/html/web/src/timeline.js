// CPU use, memory and GPUs over time, with a brush that chooses the window of all figures.
import uPlot from "uplot";
import { PARTS, cpuByBin } from "./figures.js";
import { clean, decimal, megabytes, typed } from "./format.js";
import { element } from "./widgets/dom.js";

const MOST_OF_A_MARK = 32; // the most characters of a mark's text on a chart
const COLUMNS = 300; // the most steps of the curve of CPU use
const POLLS = 4; // polling intervals after which the memory of a GPU counts as unknown
const TICKS = 8; // ticks of a busy thread in each step of the curve of CPU use, at least: fewer would be noise

const mega = (each) => (each === null ? null : each / 1e6);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export class Timeline {
  #charts = [];
  #window;

  /** `choose(first, end)` is called with bins when the user chooses a window. */
  constructor(trace, choose) {
    this.trace = trace;
    this.choose = choose;
    this.#window = [0, trace.bins.count];
    this.element = element("div", {
      class: "timeline",
      tabindex: "0",
      role: "group",
      "aria-label": "Time window: drag, or use the arrow keys",
      onkeydown: (event) => this.#key(event),
    });
    this.reading = element("span", { class: "reading" });
    new ResizeObserver(() => this.draw()).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Draws all charts again with the current colours and size. */
  draw() {
    for (const chart of this.#charts) chart.destroy();
    const kinds = [this.trace.has.cpu && this.#cpu(), this.#memory(), ...this.#gpu()].filter(Boolean);
    this.#charts = kinds.map((kind, index) => this.#chart(kind, index === 0, index === kinds.length - 1));
  }

  #cpu() {
    const { count, width_s } = this.trace.bins;
    const tick_s = Number(this.trace.settings.cpu_interval_ns ?? 0) / 1e9;
    const group = Math.max(
      Math.ceil(count / COLUMNS),
      Math.min(Math.ceil((TICKS * tick_s) / width_s), Math.ceil(count / 20)),
    );
    const starts = Array.from({ length: Math.ceil(count / group) }, (_, index) => index * group);
    const mean = (sums, start) =>
      sums.slice(start, start + group).reduce((sum, value) => sum + value, 0) /
      (Math.min(group, count - start) * width_s);
    const levels = [];
    for (const sums of cpuByBin(this.trace))
      levels.push(starts.map((start, index) => (levels.at(-1)?.[index] ?? 0) + mean(sums, start)));
    const rows = this.#stepped(starts, levels.reverse());
    const series = [...PARTS].reverse().map(([name]) => ({
      fill: colour(name),
      width: 0,
      points: { show: false },
    }));
    return {
      label: "CPUs",
      rows,
      series,
      height: 84,
      format: (value) => decimal(value, value < 10 && value % 1 ? 1 : 0),
      least: 1,
    };
  }

  #memory() {
    const { footprint, python, rss } = this.trace.memory;
    const wanted = [
      [rss, { stroke: colour("rss"), width: 1, dash: [3, 3] }],
      [this.trace.has.memory && footprint, { stroke: colour("memory"), fill: colour("memory-fill"), width: 1.2 }],
      [this.trace.has.memory && python, { stroke: colour("python"), width: 1 }],
    ].filter(([levels]) => levels);
    if (!wanted.length) return null;
    const starts = Array.from({ length: this.trace.bins.count }, (_, index) => index);
    const rows = this.#stepped(
      starts,
      wanted.map(([levels]) => levels.map(mega)),
    );
    const series = wanted.map(([, style]) => ({ ...style, points: { show: false } }));
    return { label: "MB", rows, series, height: 100, format: (value) => decimal(value, 0), least: 1 };
  }

  /** Utilization and memory of all GPUs together. */
  #gpu() {
    if (!this.trace.has.gpu) return [];
    const { percent, memory } = this.trace.gpu;
    const starts = Array.from({ length: this.trace.bins.count }, (_, index) => index);
    const style = { stroke: colour("gpu"), fill: colour("gpu-fill"), width: 1, points: { show: false } };
    const track = (label, levels, least) => ({
      label,
      rows: this.#stepped(starts, [levels]),
      series: [style],
      height: 56,
      space: 16,
      format: (value) => decimal(value, 0),
      least,
    });
    return [
      percent.some((each) => each > 0) && track("GPU %", percent, 100),
      memory.some((each) => each > 0) && track("GPU MB", this.#held(memory).map(mega), 1),
    ];
  }

  /** Fills the bins between observations with the earlier one, unless the next observation came too late. */
  #held(levels) {
    const { width_s } = this.trace.bins;
    const most = (POLLS * Number(this.trace.settings.gpu_interval_ns ?? 5e7)) / 1e9 / width_s;
    const found = levels.slice();
    let last = -1;
    levels.forEach((level, bin) => {
      if (level === null) return;
      if (last >= 0 && bin - last <= most) found.fill(levels[last], last, bin);
      last = bin;
    });
    return found;
  }

  /** Times and values, with the last value extended to the end. */
  #stepped(starts, columns) {
    const end = this.trace.edge(this.trace.bins.count);
    return [
      [...starts.map((start) => this.trace.edge(start)), end],
      ...columns.map((column) => [...column, column.at(-1)]),
    ];
  }

  #chart({ label, rows, series, height, format, least, space = 26 }, isFirst, isLast) {
    const axis = {
      stroke: colour("dim"),
      grid: { stroke: colour("line"), width: 1 },
      ticks: { stroke: colour("line"), width: 1, size: 4 },
      font: "11px system-ui, sans-serif",
    };
    const options = {
      width: Math.max(this.element.clientWidth, 200),
      height: height + (isLast ? 20 : 0),
      padding: [6, 12, isLast ? 0 : 4, 0],
      legend: { show: false },
      scales: {
        x: { time: false, range: () => [this.trace.edge(0), this.trace.edge(this.trace.bins.count)] },
        y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, least) * 1.06] },
      },
      axes: [
        {
          ...axis,
          show: isLast,
          size: 22,
          gap: 3,
          values: (_, values) => values.map((value) => `${typed(value, 1e-6)} s`),
        },
        {
          ...axis,
          size: 58,
          gap: 4,
          space,
          label,
          labelSize: 14,
          labelGap: 0,
          labelFont: axis.font,
          values: (_, values) => values.map(format),
        },
      ],
      series: [{}, ...series.map((each) => ({ ...each, paths: uPlot.paths.stepped({ align: 1 }) }))],
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: false, dist: 3 },
        bind: { dblclick: () => () => this.choose(0, this.trace.bins.count) },
      },
      hooks: {
        ready: [(chart) => this.#select(chart)],
        setSelect: [(chart) => this.#brushed(chart)],
        setCursor: [(chart) => this.#read(chart)],
        draw: [(chart) => this.#marks(chart, isFirst)],
      },
    };
    return new uPlot(options, rows, this.element);
  }

  #brushed(chart) {
    const { left, width } = chart.select;
    if (width < 1) return;
    const [first, end] = [left, left + width].map((each) => this.binAt(chart.posToVal(each, "x")));
    this.choose(Math.min(first, this.trace.bins.count - 1), Math.max(end, first + 1));
  }

  /** The index of the edge between bins that is nearest to a time. */
  binAt(time) {
    const { origin_s, width_s, count } = this.trace.bins;
    return Math.min(Math.max(Math.round((time - origin_s) / width_s), 0), count);
  }

  #read(chart) {
    const { left } = chart.cursor;
    if (left === undefined || left < 0) return void (this.reading.textContent = "");
    const time = chart.posToVal(left, "x");
    const bin = Math.min(
      Math.max(Math.floor((time - this.trace.bins.origin_s) / this.trace.bins.width_s), 0),
      this.trace.bins.count - 1,
    );
    const { footprint, rss } = this.trace.memory;
    const { gpu } = this.trace;
    const near = 4 * (chart.posToVal(1, "x") - chart.posToVal(0, "x"));
    const marks = this.trace.marks.filter(({ t_s, end_s }) => time >= t_s - near && time <= (end_s ?? t_s) + near);
    const texts = [
      ...marks.slice(0, 3).map(({ what, text }) => clean(`${what} ${text}`.trim())),
      `at ${typed(this.trace.edge(bin), this.trace.bins.width_s)} s`,
      this.trace.has.memory && `footprint ${megabytes(footprint[bin])}`,
      typeof rss?.[bin] === "number" && `RSS ${megabytes(rss[bin])}`,
      typeof gpu?.percent[bin] === "number" && `GPU ${decimal(gpu.percent[bin], 0)} %`,
      typeof gpu?.memory[bin] === "number" && `GPU memory ${megabytes(gpu.memory[bin])}`,
    ];
    this.reading.textContent = texts.filter(Boolean).join(" · ");
  }

  /** Writes the text of a user mark beside its line, if there is room before `end`. Returns where the next one may begin. */
  #label(context, text, x, top, end) {
    const room = end - x;
    let shown = text.slice(0, MOST_OF_A_MARK);
    if (shown !== text) shown += "…";
    const gap = 4 * devicePixelRatio;
    const width = context.measureText(shown).width + 2 * gap;
    if (width > room) return x;
    const before = context.fillStyle;
    context.fillStyle = colour("text");
    context.fillText(shown, x + gap, top + gap / 2);
    context.fillStyle = before;
    return x + width;
  }

  #marks(chart, hasTexts) {
    const context = chart.ctx;
    const { left, top, width, height } = chart.bbox;
    context.save();
    context.strokeStyle = colour("dim");
    context.fillStyle = colour("shade");
    context.setLineDash([2, 3]);
    context.textBaseline = "top";
    context.textAlign = "left";
    context.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    let free = left;
    for (const { t_s, end_s, what, text } of this.trace.marks) {
      const x = chart.valToPos(t_s, "x", true);
      if (x < left || x > left + width) continue;
      if (what === "pause")
        context.fillRect(x, top, (end_s === null ? left + width : chart.valToPos(end_s, "x", true)) - x, height);
      context.beginPath();
      context.moveTo(x, top);
      context.lineTo(x, top + height);
      context.stroke();
      if (what === "mark" && x >= free && hasTexts) free = this.#label(context, clean(text), x, top, left + width);
    }
    context.restore();
  }

  /** Shows the bins from first to end as the window; the whole time is shown without a window. */
  show(first, end) {
    this.#window = [first, end];
    for (const chart of this.#charts) this.#select(chart);
  }

  #select(chart) {
    const [first, end] = this.#window;
    const isWhole = first === 0 && end === this.trace.bins.count;
    const [left, right] = [first, end].map((bin) => chart.valToPos(this.trace.edge(bin), "x"));
    chart.setSelect(
      isWhole
        ? { left: 0, width: 0, top: 0, height: 0 }
        : { left, width: right - left, top: 0, height: chart.over.clientHeight },
      false,
    );
  }

  #key(event) {
    const [first, end] = this.#window;
    const count = this.trace.bins.count;
    const sign = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!sign || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const tenth = Math.max(1, Math.round(count / 10));
    if (end - first === count) return this.choose(...(sign > 0 ? [0, tenth] : [count - tenth, count]));
    const step = sign * Math.max(1, Math.round(count / 100));
    if (event.shiftKey) return this.choose(first, Math.min(Math.max(end + step, first + 1), count));
    const moved = Math.min(Math.max(first + step, 0), count - (end - first));
    return this.choose(moved, moved + end - first);
  }
}
