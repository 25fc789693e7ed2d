// The page of a fleet: the flame graph of the stacks of all its traces.
import { Trace } from "./data.js";
import { sumUp } from "./figures.js";
import { Flame } from "./flame.js";
import { clean, decimal, seconds } from "./format.js";
import { element } from "./widgets/dom.js";

export class FleetPage {
  constructor(content) {
    const trace = new Trace({ ...content.traces[0], query: content.query });
    const now = sumUp(trace, 0, 1);
    this.flame = new Flame({ trace, now });
    this.search = element("input", {
      type: "search",
      placeholder: "filter  /",
      "aria-label": "Highlight only calls whose function or file contains this text",
      oninput: () => this.flame.filter(this.search.value.trim()),
    });
    document.title = `${clean(content.fleet.folder)} – scalene-trace`;
    document.body.append(
      heading(content, now.totals.cpu),
      element("nav", {}, element("div", { class: "tabs" }), this.search),
      element("main", { id: "pane", "aria-label": "Flame graph" }, this.flame.element),
      element(
        "footer",
        {},
        element("span", { text: "(other): stacks with less than a thousandth of the CPU time of their trace" }),
        element("span", { class: "keys", text: `/ filter · ${clean(content.made_by)}` }),
      ),
    );
    document.addEventListener("keydown", (event) => this.#shortcut(event));
  }

  #shortcut(event) {
    if (event.target instanceof HTMLInputElement) {
      if (event.key === "Escape") event.target.blur();
    } else if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      this.search.focus();
      this.search.select();
    }
  }
}

/** The folder, the CPU time and what the graph covers. */
function heading({ fleet, query }, cpu_s) {
  const count = (number, one, many) => `${decimal(number, 0)} ${number === 1 ? one : many}`;
  const days = fleet.first_day === fleet.last_day ? [fleet.first_day] : [fleet.first_day, fleet.last_day];
  const chosen = [...query.where, ...query.host.map((name) => `host ${name}`)];
  const facts = [
    `${seconds(cpu_s)} CPU time`,
    count(fleet.traces, "trace", "traces"),
    count(fleet.hosts, "host", "hosts"),
    fleet.versions > 0 && count(fleet.versions, "version", "versions"),
    fleet.first_day && days.map(clean).join(" to "),
    fleet.exposure >= 0.05 && fleet.per === null && `${decimal(fleet.exposure, 1)} h recorded`,
    chosen.map(clean).join(", "),
    fleet.unreadable > 0 && count(fleet.unreadable, "file could not be read", "files could not be read"),
  ];
  const folder = clean(fleet.folder);
  return element(
    "header",
    {},
    element("h1", { text: folder, title: folder }),
    element("p", { class: "facts", text: facts.filter(Boolean).join(" · ") }),
  );
}
