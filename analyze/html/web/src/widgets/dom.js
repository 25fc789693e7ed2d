// Creates elements without parsing HTML, which the page's security policy forbids.

/** An element with these properties (`class`, `text`, `data-…`, `on…`, attributes) and children. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") made.textContent = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key === "class" ? "class" : key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A stacked bar of parts ([class, value]), whose widths are shares of `whole`. */
export function bar(parts, whole) {
  const made = element("span", { class: "bar" });
  for (const [name, value] of parts) {
    if (!(value > 0) || !(whole > 0)) continue;
    const part = element("i", { class: name });
    part.style.width = `${Math.max((100 * value) / whole, 0.4)}%`;
    made.append(part);
  }
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

/** Values as a line in `width` by `height` pixels, with the area down to 0 filled. */
export function sparkline(values, width, height) {
  const svg = document.createElementNS(SVG, "svg");
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const y = (value) => (high > low ? 1 + ((high - value) / (high - low)) * (height - 2) : height - 1);
  const x = (index) => (index / Math.max(values.length - 1, 1)) * width;
  const points = values.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`);
  for (const [name, value] of Object.entries({ width, height, class: "spark", "aria-hidden": "true" }))
    svg.setAttribute(name, value);
  const area = document.createElementNS(SVG, "polygon");
  area.setAttribute("points", `0,${y(0).toFixed(1)} ${points.join(" ")} ${width},${y(0).toFixed(1)}`);
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", points.join(" "));
  svg.append(area, line);
  return svg;
}
