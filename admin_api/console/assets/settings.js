// Changes of settings: the values before and after, by whom and when, and the undoing of one.

import { actionButton } from "./actions.js";
import { get } from "./api.js";
import { ago, h, show } from "./dom.js";
import { bytes, capital, duration } from "./format.js";
import { filterBy, hrefOf } from "./route.js";

const SHOWN = 100;
const DAY_MS = 86_400_000;
/** Longer than any log is kept: Kafka's word for "never". */
const FOREVER = 2 ** 53;

/** The latest changes of one holder's settings: ask(changesOf(path, { topic: "orders" })). */
export function changesOf(path, holder, limit = 10) {
  return `${path}/config-changes?${new URLSearchParams({ ...holder, limit })}`;
}

/** settingText("retention.ms", "3600000") is "3600000 (1 h)"; null: it is not set. */
export function settingText(name, value) {
  if (value === null || value === undefined) return "not set";
  const number = /^[0-9]+$/.test(value) ? Number(value) : null;
  if (number === null || number < 1_000 || number >= FOREVER) return value;
  if (name.endsWith(".ms")) return `${value} (${number % DAY_MS === 0 ? `${number / DAY_MS} d` : duration(number)})`;
  return /bytes(\.per\.second)?$/.test(name) ? `${value} (${bytes(number)})` : value;
}

/** A line for each setting that differs. before, after: values by name. */
export function differences(before, after) {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return names.filter((name) => before[name] !== after[name]).map((name) => h("span", {}, `${name}: ${settingText(name, before[name])} → ${settingText(name, after[name])}`));
}

/** answer: of `ask`. Who may not or can't see them is told why. */
export function changeList(answer, context) {
  if (answer.failure) return h("p", { class: "empty" }, `${capital(answer.failure.message)}.`);
  if (answer.body.items.length === 0) return h("p", { class: "empty" }, "None was changed.");
  return h("ol", { class: "audit", "aria-label": "Changes of settings" }, answer.body.items.map((item) => change(item, context)));
}

function change(item, context) {
  const by = (side) => Object.fromEntries(item.changes.filter((one) => one[side] !== null).map((one) => [one.name, one[side]]));
  const undo = actionButton("Undo", () => undoChange(item, context), context);
  undo.setAttribute("aria-label", `Undo the change of ${item.changes.map((one) => one.name).join(", ")} of ${whose(item, context)}, ${item.id}`);
  return h(
    "li",
    { class: "undoable" },
    h("p", { class: "difference" }, differences(by("before"), by("after"))),
    item.reason ? h("p", { class: "reason" }, item.reason) : null,
    h("p", { class: "quiet" }, `${whose(item, context)} · ${item.actor}, `, ago(item.at)),
    undo,
  );
}

function whose({ entity, topic, broker_id: broker, group_id: group }, { cluster }) {
  if (entity === "topic") return `topic ${topic}`;
  if (entity === "group") return `group ${group}`;
  return entity === "broker" ? `broker ${broker}` : `cluster ${cluster.name}`;
}

function holderOf({ entity, topic, broker_id: broker, group_id: group }, path) {
  if (entity === "topic") return `${path}/topics/${encodeURIComponent(topic)}/configs`;
  if (entity === "group") return `${path}/group-configs/${encodeURIComponent(group)}`;
  return entity === "broker" ? `${path}/brokers/${broker}/configs` : `${path}/configs`;
}

function undoChange(item, context) {
  return {
    title: `Undo the change of ${item.changes.length === 1 ? item.changes[0].name : `${item.changes.length} settings`}`,
    before: `Of ${whose(item, context)}: ${item.changes.map((one) => `${one.name} goes back from ${settingText(one.name, one.after)} to ${one.before === null ? "its default" : settingText(one.name, one.before)}`).join("; ")}. Refused if it was changed again since.`,
    versionOf: holderOf(item, context.path),
    request: () => ({ method: "POST", path: `${context.path}/config-changes/${item.id}:undo`, body: {} }),
  };
}

/** All changes of settings in a cluster. */
export const changesView = {
  title: () => "Changes of settings",
  path: ({ cluster }) => h("a", { href: hrefOf(cluster.name, "audit") }, "Audit"),
  tools(context) {
    const search = h("input", { type: "search", id: "setting", placeholder: "such as retention.ms", autocomplete: "off", spellcheck: "false" });
    search.value = context.route.query.get("name") ?? "";
    search.addEventListener("change", () => {
      filterBy({ name: search.value.trim() });
      context.refresh();
    });
    return h("label", { class: "field" }, "Setting", search);
  },
  async ask({ path, route }) {
    const name = route.query.get("name");
    return get(changesOf(path, name ? { name } : {}, SHOWN));
  },
  draw(body, answer, context) {
    show(body, changeList(answer, context), answer.body.next_page_token ? h("p", { class: "empty" }, `Of the newest ${SHOWN} changes. Older ones: springtide configs history`) : null);
  },
};
