// Makes elements. What the controller says only ever becomes text nodes and attribute values: there is no way here
// to turn a string into markup.

const SVG = "http://www.w3.org/2000/svg";

/** h("p", { class: "quiet" }, "text", node, null): an element; null, false and undefined children are left out. */
export function h(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes = {}, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...present(children));
  return node;
}

/** Lists may be nested, and what is not there is left out. */
function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Puts the children into a node, unless it shows the same already: focus and selection stay where they are, and
 * what a reader opened stays open. Who was on a link or a button is on it again. */
export function show(node, ...children) {
  const fresh = document.createElement(node.localName);
  fresh.append(...present(children));
  for (const details of node.querySelectorAll("details[data-key][open]")) {
    const same = [...fresh.querySelectorAll("details[data-key]")].find((d) => d.dataset.key === details.dataset.key);
    if (same) same.open = true;
  }
  if (fresh.innerHTML === node.innerHTML) return;
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  node.replaceChildren(...fresh.childNodes);
  if (focused) [...node.querySelectorAll(focused.localName)].find((element) => isSame(element, focused))?.focus({ preventScroll: true });
}

/** Whether one element stands for the other after a redraw. */
function isSame(element, other) {
  const marks = ["href", "data-key", "data-setting", "aria-label"];
  return marks.every((name) => element.getAttribute(name) === other.getAttribute(name)) && element.textContent === other.textContent;
}

/** A moment, shown as the time since then, which goes on. */
export function ago(moment) {
  const time = h("time", { datetime: moment, "data-ago": "", title: new Date(moment).toLocaleString() });
  tick(time);
  return time;
}

export function tickAll() {
  for (const time of document.querySelectorAll("time[data-ago]")) tick(time);
}

function tick(time) {
  const text = since(Date.now() - Date.parse(time.dateTime));
  if (time.textContent !== text) time.textContent = text;
}

function since(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}
