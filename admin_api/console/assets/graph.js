// Line graphs over time, in SVG. A value is read with the pointer, or with the arrow keys where the graph has the
// focus; what is read stays over a redraw. A line breaks where nothing is known.

import { h, s } from "./dom.js";
import { clock } from "./format.js";
import { ceiling } from "./lag.js";

const HEIGHT = 150;
const EDGE = { top: 10, right: 12, bottom: 22, left: 74 };
const WINDOW_MS_MIN = 10 * 60_000;

/** By a graph's key: the time that is being read. */
const reading = new Map();

/** key: of this graph and no other. text(value): with its unit. unit: "bytes", "ms" or null: how the scale is rounded.
 * lines: [{ name, values }], a value for each of `times` (Unix ms), null where it is not known. */
export function graph({ key, title, text, unit, least, lines, times, intervalMs, width }) {
  const last = times.at(-1);
  const first = Math.min(times[0], last - WINDOW_MS_MIN);
  const known = lines.flatMap(({ values }) => values.filter((value) => value !== null));
  const top = roundUp(Math.max(least, ...known), unit);
  const right = width - EDGE.right;
  const bottom = HEIGHT - EDGE.bottom;
  const x = (at) => EDGE.left + ((at - first) / (last - first)) * (right - EDGE.left);
  const y = (value) => bottom - (value / top) * (bottom - EDGE.top);
  const marker = s("g", { class: "marker" });
  const drawing = s(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, "aria-hidden": "true" },
    [0, 0.5, 1].map((part) => [
      s("line", { class: "grid", x1: EDGE.left, x2: right, y1: y(part * top), y2: y(part * top) }),
      s("text", { class: "scale", x: EDGE.left - 8, y: y(part * top) + 4, "text-anchor": "end" }, text(part * top)),
    ]),
    s("text", { class: "scale", x: EDGE.left, y: HEIGHT - 5 }, clock(first).replace(/:\d\d$/, "")),
    s("text", { class: "scale", x: right, y: HEIGHT - 5, "text-anchor": "end" }, clock(last).replace(/:\d\d$/, "")),
    lines.map(({ values }, index) => s("path", { class: `series series-${index}`, d: path(times, values, intervalMs, x, y) })),
    marker,
  );
  const told = h("p", { class: "reading" });
  const reader = h("div", { class: "reader", tabindex: "0", role: "slider", "aria-label": `${title}: values by time`, "aria-valuemin": "1", "aria-valuemax": times.length });
  const isOne = lines.length === 1;
  const valuesAt = (index) => lines.map(({ name, values }) => `${isOne ? "" : `${name} `}${values[index] === null ? "not known" : text(values[index])}`).join(", ");

  /** Shows the sample that is read, else the newest. */
  function read() {
    const at = reading.get(key);
    const found = times.indexOf(at);
    const index = found < 0 ? times.length - 1 : found;
    const said = `${found < 0 ? "Now" : clock(times[index])}: ${valuesAt(index)}`;
    if (told.textContent !== said) told.replaceChildren(said);
    reader.setAttribute("aria-valuenow", index + 1);
    reader.setAttribute("aria-valuetext", said);
    if (found < 0) return marker.replaceChildren();
    return marker.replaceChildren(
      s("line", { x1: x(at), x2: x(at), y1: EDGE.top, y2: bottom }),
      ...lines.flatMap(({ values }, line) => (values[index] === null ? [] : [s("circle", { class: `series-${line}`, cx: x(at), cy: y(values[index]), r: 3.5 })])),
    );
  }

  function choose(index) {
    if (index === null) reading.delete(key);
    else reading.set(key, times[Math.min(Math.max(0, index), times.length - 1)]);
    read();
  }

  reader.addEventListener("pointermove", (event) => {
    const box = reader.getBoundingClientRect();
    const at = first + ((((event.clientX - box.left) / box.width) * width - EDGE.left) / (right - EDGE.left)) * (last - first);
    choose(times.reduce((best, time, index) => (Math.abs(time - at) < Math.abs(times[best] - at) ? index : best), 0));
  });
  reader.addEventListener("pointerleave", () => document.activeElement !== reader && choose(null));
  // A redraw takes this element away, which is a blur, too: then what is read is kept for the next one.
  reader.addEventListener("blur", () => setTimeout(() => reader.isConnected && choose(null)));
  reader.addEventListener("keydown", (event) => {
    const chosen = times.indexOf(reading.get(key));
    const now = chosen < 0 ? times.length - 1 : chosen;
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: times.length - 1, Escape: null }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(to);
  });
  read();
  const legend = isOne ? null : h("span", { class: "legend" }, lines.map(({ name }, index) => h("span", {}, h("span", { class: `key series-${index}`, "aria-hidden": "true" }), name)));
  return h("figure", { class: "graph" }, h("figcaption", {}, h("b", {}, title), legend), told, h("div", { class: "plot" }, drawing, reader), asTable(key, lines, text));
}

/** A lone sample between two gaps is a dot. */
function path(times, values, intervalMs, x, y) {
  let d = "";
  let before = null;
  times.forEach((at, index) => {
    const value = values[index];
    if (value === null) before = null;
    else {
      d += before !== null && at - before <= 1.5 * intervalMs ? `L${x(at).toFixed(1)} ${y(value).toFixed(1)}` : `M${x(at).toFixed(1)} ${y(value).toFixed(1)}h0`;
      before = at;
    }
  });
  return d;
}

/** 1, 2 or 5 times a power of ten, of the greatest unit that fits. */
function roundUp(value, unit) {
  const size = unit === "bytes" ? 1_024 ** Math.floor(Math.log2(value) / 10) : 1;
  return size * ceiling(value / size, unit);
}

/** The same for those who can't see lines. */
function asTable(key, lines, text) {
  const rows = lines.map(({ name, values }) => {
    const known = values.filter((value) => value !== null);
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    const figures = known.length === 0 ? ["not known", "not known", "not known"] : [values.at(-1) === null ? "not known" : text(values.at(-1)), text(mean), text(Math.max(...known))];
    return h("tr", {}, h("th", { scope: "row" }, name), figures.map((figure) => h("td", { class: "number" }, figure)));
  });
  const head = ["", "Now", "Mean", "Most"].map((name, index) => h(index > 0 ? "th" : "td", { scope: index > 0 ? "col" : null, class: index > 0 ? "number" : null }, name));
  return h("details", { "data-key": `table-${key}` }, h("summary", {}, "As a table"), h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}
