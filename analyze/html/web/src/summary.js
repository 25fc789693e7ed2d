// The head of the page: the recording, and the totals of the window.
import { bar, element } from "./widgets/dom.js";
import { PARTS, WAITS } from "./figures.js";
import { clean, decimal, megabytes, percent, seconds } from "./format.js";
import { DIRECTIONS, UNCLASSIFIED } from "./columns.js";

/** The command and a line of facts about the recording. */
export function heading(trace) {
  const { info } = trace;
  const count = (number, one, many) => `${decimal(number, 0)} ${number === 1 ? one : many}`;
  const facts = [
    info.started_at && `${clean(info.started_at.slice(0, 19).replace("T", " "))} UTC`,
    info.wall_s !== null ? `${seconds(info.wall_s)} long` : "duration unknown",
    info.python ? `Python ${clean(info.python)}` : "no Python",
    count(info.processes, "process", "processes"),
    count(info.threads, "thread", "threads"),
    clean(info.path.slice(info.path.lastIndexOf("/") + 1)),
  ];
  const command = info.command ? info.command.map(clean).join(" ") : "(command not stored)";
  return element(
    "header",
    {},
    element("h1", { text: command, title: command }),
    element("p", { class: "facts", text: facts.filter(Boolean).join(" · ") }),
  );
}

/** A button with the losses that affect figures; null = no such losses. */
export function warning(trace, open) {
  const bad = trace.info.losses.filter((each) => each.severity !== "info");
  if (!bad.length) return null;
  const text = bad.map((each) => `${clean(each.name)} ×${decimal(each.count, 0)}`).join(", ");
  return element("button", {
    type: "button",
    class: "warning",
    onclick: open,
    text: `Not everything was recorded: ${text}`,
  });
}

/** The findings on the whole recording; null = there are none. `open` shows a line of the source. Losses are the warning's. */
export function findings(trace, open) {
  const rows = (trace.findings ?? []).filter((each) => each.kind !== "loss");
  if (!rows.length) return null;
  const item = ({ text, file, line }) =>
    element(
      "li",
      {},
      file !== null && trace.sources.has(file)
        ? element("button", { type: "button", title: "open the source", onclick: () => open(file, line), text: clean(text) })
        : element("span", { text: clean(text) }),
    );
  return element("ul", { class: "findings", "aria-label": "Findings on the whole recording" }, ...rows.map(item));
}

// From this part of the waiting time, and these seconds, on, waits without a Python stack are named.
const LEAST_IDLE = 0.05;
const LEAST_IDLE_S = 0.1;

/** What is known of samples without a Python stack. */
const withoutStack = (trace) => (trace.lacks_stacks ? "unknown: Python stacks could not be read" : "without Python code");

/** A figure with its title; `value` (seconds or bytes) is stored as data for scripts. */
function figure(name, title, value, text, ...more) {
  return element(
    "div",
    { class: "figure" },
    element("span", { class: "name", text: title }),
    element("b", { "data-figure": name, "data-value": value ?? "", text }),
    ...more,
  );
}

function share(style, title, part, whole) {
  if (!(part > 0)) return null;
  return element(
    "span",
    { class: "share", title: style === "unclassified" ? UNCLASSIFIED : null },
    element("i", { class: style }),
    `${title} ${decimal(percent(part, whole), 0)} %`,
  );
}

/** The figures of the window. */
export function figures(trace, { totals, first, end }) {
  const { has } = trace;
  const made = [];
  if (has.cpu) {
    const parts = PARTS.map(([name]) => [name, totals[name]]);
    const shares = PARTS.map(([name, word]) => share(name, word, totals[name], totals.cpu));
    const collected =
      totals.gc > 0
        ? element("span", {
            class: "share dim",
            text: `garbage collection ${decimal(percent(totals.gc, totals.cpu), 0)} %`,
          })
        : null;
    made.push(figure("cpu_s", "CPU", totals.cpu, seconds(totals.cpu), bar(parts, totals.cpu), ...shares, collected));
  } else made.push(figure("cpu_s", "CPU", null, "not recorded"));
  if (has.wait) {
    const parts = WAITS.map(([name, word]) => [word, totals[name]]);
    made.push(
      figure(
        "wait_s",
        "Waiting",
        totals.wait,
        seconds(totals.wait),
        element(
          "span",
          { class: "share" },
          element("i", { class: "wait" }),
          "all threads: " +
            (parts
              .filter(([, value]) => value > 0)
              .map(([name, value]) => `${name} ${decimal(percent(value, totals.wait), 0)} %`)
              .join(", ") || "none"),
        ),
        totals.idle >= Math.max(LEAST_IDLE * totals.wait, LEAST_IDLE_S)
          ? element("span", { class: "share dim", text: `${seconds(totals.idle)} of it ${withoutStack(trace)}` })
          : null,
      ),
    );
  }
  const memory = element("div", { class: "figure" }, element("span", { class: "name", text: "Memory" }));
  const add = (name, value, text, after, style) =>
    value !== null &&
    memory.append(
      element(
        "span",
        { class: "share" },
        style ? element("i", { class: style }) : null,
        element("b", { "data-figure": name, "data-value": value, text }),
        ` ${after}`,
      ),
    );
  if (has.memory) {
    add("peak_bytes", totals.peak, megabytes(totals.peak), "peak", "memory");
    add("python_peak_bytes", totals.pythonPeak, megabytes(totals.pythonPeak), "Python’s peak", "python line");
  } else memory.append(element("b", { text: "not recorded" }));
  add("peak_rss_bytes", totals.rss, megabytes(totals.rss), "RSS", "rss line");
  if (has.alloc) {
    add("alloc_bytes", totals.alloc, megabytes(totals.alloc), "allocated");
    add("live_at_end_bytes", totals.kept, megabytes(totals.kept), "alive at the end");
  }
  if (has.copy && totals.copy > 0) add("copy_bytes", totals.copy, megabytes(totals.copy), "copied");
  if (has.alloc) {
    if (trace.unseen_bytes > 0) {
      const bound = megabytes(Math.max(trace.unseen_bytes, 1e5));
      memory.append(
        element("span", { class: "share dim", text: `sampled: a line without a figure allocated less than ${bound} (95 %)` }),
      );
    }
  }
  return [...made, memory, ...deviceFigures(trace, totals, (end - first) * trace.bins.width_s)];
}

/** The figures of GPUs and CUDA calls; empty if no GPU was used. */
function deviceFigures({ has }, totals, length_s) {
  const made = [];
  const part = (name, value, text) =>
    element("span", { class: "share" }, element("b", { "data-figure": name, "data-value": value, text: text[0] }), ` ${text[1]}`);
  if (has.gpu) {
    const busy = `${decimal(percent(totals.gpu, length_s), 0)} % of one GPU’s time`;
    made.push(
      figure(
        "gpu_s",
        "GPU",
        totals.gpu,
        seconds(totals.gpu),
        element("span", { class: "share" }, element("i", { class: "gpu" }), busy),
        part("gpu_peak_bytes", totals.gpuPeak, [megabytes(totals.gpuPeak), "peak GPU memory"]),
      ),
    );
  }
  if (has.device) {
    const copies = Object.entries(DIRECTIONS).filter(([name]) => totals[name] > 0);
    made.push(
      figure(
        "device_copy_bytes",
        "Devices",
        totals.deviceCopy,
        megabytes(totals.deviceCopy),
        element("span", { class: "share", text: "copied" }),
        ...copies.map(([name, title]) => part(`${name}_bytes`, totals[name], [megabytes(totals[name]), title])),
        part("device_sync_s", totals.device_sync, [seconds(totals.device_sync), "waiting for devices"]),
      ),
    );
  }
  return made;
}
