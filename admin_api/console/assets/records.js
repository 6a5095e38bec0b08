// A look at a topic's records. A look is a request that the audit keeps, so it is asked for by a person and never again
// by itself: the page's rounds draw what was found. What is in a record is shown as text.

import { get } from "./api.js";
import { h, show } from "./dom.js";
import { bytes, capital, clock, count, plural } from "./format.js";
import { filterBy, hrefOf } from "./route.js";
import { badge } from "./tables.js";

const LIMIT = 50;
const SUMMARY_CHARS = 160;
const INDENT_DEPTH_MAX = 40;
const FROM = [["newest", "the newest"], ["earliest", "the first"], ["offset", "an offset"], ["timestamp", "a time"]];
const FORMATS = [["auto", "as it is"], ["text", "text"], ["json", "JSON"], ["hex", "hex"]];
const STOPS = {
  end: "That is all.",
  limit: "There may be more.",
  bytes: "There may be more: the answer is as large as one may be.",
  scanned: "There may be more: one look opens no more bytes.",
  time: "There may be more: one look takes no longer.",
};

/** The last look of this page: { hash, answer } or { hash, failure }. */
let last = null;

export const recordsView = {
  title: (route) => `Records of ${route.id}`,
  path: ({ cluster, route }) => h("a", { href: hrefOf(cluster.name, "topics", route.id) }, `Topic ${route.id}`),
  tools(context) {
    const { query } = context.route;
    const field = (name, text, element, value) => {
      element.id = `look-${name}`;
      element.value = query.get(name) ?? value;
      return h("label", { class: "field" }, text, element);
    };
    const choice = (pairs) => h("select", {}, pairs.map(([value, text]) => h("option", { value }, text)));
    const text = (attributes) => h("input", { autocomplete: "off", spellcheck: "false", ...attributes });
    const from = choice(FROM);
    const at = text({ placeholder: "offset, or 2026-11-21T09:30:00Z" });
    const caseless = h("input", { type: "checkbox", id: "look-ignore_case" });
    caseless.checked = query.get("ignore_case") === "true";
    const form = h(
      "form",
      { class: "tools look" },
      field("partition", "Partition", text({ type: "number", min: 0, placeholder: "all" }), ""),
      field("from", "From", from, "newest"),
      field("at", "Which", at, ""),
      field("key", "Key has", text({ type: "search", maxlength: 1000 }), ""),
      field("value", "Value has", text({ type: "search", maxlength: 1000 }), ""),
      field("format", "Shown as", choice(FORMATS), "auto"),
      h("label", { class: "check" }, caseless, "upper or lower case"),
      h("button", { type: "submit" }, "Look"),
    );
    const place = at.closest("label");
    const needsPlace = () => {
      place.hidden = !["offset", "timestamp"].includes(from.value);
    };
    from.addEventListener("change", needsPlace);
    needsPlace();
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const value = (name) => form.querySelector(`#look-${name}`).value.trim();
      const wanted = Object.fromEntries(["partition", "from", "key", "value", "format"].map((name) => [name, value(name)]));
      filterBy({ ...wanted, at: place.hidden ? "" : value("at"), ignore_case: caseless.checked ? "true" : "" });
      last = null;
      context.refresh();
    });
    return form;
  },
  async ask({ path, route }) {
    const address = `${path}/topics/${encodeURIComponent(route.id)}/records`;
    // A person who follows a link to a look asks for it; one that has only opened the view has not.
    if (last?.hash !== location.hash) {
      last = { hash: location.hash };
      if (route.query.has("from")) await look(address, lookOf(route.query));
    }
    return { address, ...last };
  },
  draw(body, { address, answer, failure }, context) {
    if (!answer) return show(body, failure ? refusal(failure) : h("p", { class: "empty" }, "Look: each look is in the audit, with your name and what you looked for."));
    const onward = h("button", { type: "button" }, context.route.query.get("from") === "newest" ? "What came since" : "Go on");
    onward.addEventListener("click", async () => {
      await look(address, lookOf(context.route.query, answer.position));
      context.refresh();
    });
    return show(body, records(answer), onward);
  },
};

async function look(address, query) {
  try {
    last = { hash: location.hash, answer: (await get(`${address}?${query}`, { timeoutMs: 30_000 })).body };
  } catch (failure) {
    last = { hash: location.hash, failure };
  }
}

/** The look that an address stands for. position: go on from there. */
export function lookOf(query, position = null) {
  const given = (name) => query.get(name) ?? "";
  const from = given("from");
  const wanted = { limit: LIMIT, key: given("key"), value: given("value"), ignore_case: given("ignore_case"), format: given("format") };
  if (position !== null) wanted.position = position;
  else {
    wanted.partition = given("partition");
    if (from === "offset" || from === "timestamp") wanted[from] = given("at");
    else wanted.start = from;
  }
  return new URLSearchParams(Object.entries(wanted).filter(([, value]) => value !== ""));
}

function refusal(failure) {
  const { problem } = failure; // null: no answer came
  return [h("p", { class: "empty" }, `${capital(failure.message)}.`), problem?.hint ? h("p", { class: "quiet" }, problem.hint) : null];
}

function records({ items, stopped, scanned_records: looked, scanned_bytes: size, unread, position }) {
  return [
    unread.length === 0 ? null : h("ul", { class: "blocked", "aria-label": "Not read" }, unread.map((one) => h("li", {}, `Partition ${one.partition}${one.offset === null ? "" : ` from offset ${one.offset} on`}: ${one.why}`))),
    h("p", { class: "quiet" }, `${plural(items.length, "record")} of ${count(looked)} looked at, ${bytes(size)}. ${STOPS[stopped]}`),
    items.length === 0 ? h("p", { class: "empty" }, "No record is here.") : h("ol", { class: "records", "aria-label": "Records" }, items.map(row)),
    h("p", { class: "quiet" }, "Position: ", h("code", {}, position)),
  ];
}

/** A record on a line, which opens. */
function row(item) {
  const { partition, offset, timestamp, timestamp_ms: ms, timestamp_type: type, key, value, headers, headers_total: total } = item;
  const time = timestamp === null ? (ms === -1 ? "no time" : `${ms} ms`) : clock(timestamp);
  return h(
    "li",
    {},
    h(
      "details",
      { "data-key": `record-${partition}-${offset}` },
      h("summary", {}, h("span", { class: "place" }, `${partition}-${offset}`), h("span", { class: "quiet" }, time), h("b", {}, shortly(key)), h("span", { class: "short" }, shortly(value))),
      h("p", { class: "quiet" }, `${timestamp ?? time}, ${type === "create_time" ? "as the client said" : "as the leader appended it"}`),
      part("Key", key),
      part("Value", value),
      headers.map(({ name, value: cell }) => part(`Header ${name}`, cell)),
      total > headers.length ? h("p", { class: "quiet" }, `${plural(total - headers.length, "more header")} not shown`) : null,
    ),
  );
}

function shortly(cell) {
  if (cell === null) return "null";
  const text = cell.data.slice(0, SUMMARY_CHARS).replace(/\s+/g, " ");
  return cell.data.length > SUMMARY_CHARS ? `${text}…` : text;
}

function part(name, cell) {
  if (cell === null) return [h("h3", {}, name), h("p", { class: "quiet" }, "null")];
  const about = `${cell.encoding === "text_replaced" ? "text; � stands for what is not UTF-8" : cell.encoding}, ${bytes(cell.size_bytes)}${cell.truncated ? ", cut" : ""}`;
  const text = cell.encoding === "json" ? pretty(cell.data) : cell.encoding === "hex" ? dump(cell.data) : cell.data;
  return [h("h3", {}, name, " ", badge("plain", about)), h("pre", { tabindex: "0", "aria-label": name }, text)];
}

/** pretty('{"a":1}') puts each member on a line. What stands in the document stays as it is: a number keeps its digits,
 * and a name that comes twice comes twice. */
export function pretty(json) {
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.min(depth, INDENT_DEPTH_MAX))}`;
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs) ?? [];
  return tokens
    .map((token, index) => {
      if (token === ":") return ": ";
      if (token === ",") return `,${line()}`;
      if (token === "{" || token === "[") {
        depth += 1;
        return tokens[index + 1] === "}" || tokens[index + 1] === "]" ? token : `${token}${line()}`;
      }
      if (token === "}" || token === "]") {
        depth -= 1;
        return tokens[index - 1] === "{" || tokens[index - 1] === "[" ? token : `${line()}${token}`;
      }
      return token;
    })
    .join("");
}

/** dump("00ff61") is "00000000  00 ff 61  ..a": sixteen bytes a line. */
export function dump(hex) {
  const lines = [];
  for (let at = 0; at < hex.length; at += 32) {
    const pairs = hex.slice(at, at + 32).match(/../g);
    const text = pairs.map((pair) => (pair >= "20" && pair <= "7e" ? String.fromCharCode(parseInt(pair, 16)) : ".")).join("");
    lines.push(`${(at / 2).toString(16).padStart(8, "0")}  ${pairs.join(" ").padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}
