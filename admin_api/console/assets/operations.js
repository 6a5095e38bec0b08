// Operations: the list with a filter, and one operation with its moves.

import { actionButton } from "./actions.js";
import { get } from "./api.js";
import { cancelOperation, steerOperation, throttleOperation, undoOperation } from "./changes.js";
import { ago, h, show } from "./dom.js";
import { bytes, capital, clock, count, duration, plural, words } from "./format.js";
import { filterBy, hrefOf } from "./route.js";
import { badge, table } from "./tables.js";
import { figures } from "./topics.js";
import { progress, speed, stepsOf, title } from "./work.js";

const LISTED = 100;
const STATES = ["", "running", "preflight", "planning", "awaiting_approval", "scheduled", "paused", "cancelling", "succeeded", "failed", "cancelled"];

export const operationsView = {
  title: () => "Operations",
  tools(context) {
    const choice = h("select", { id: "state" }, STATES.map((state) => h("option", { value: state }, state === "" ? "all" : words(state))));
    choice.value = context.route.query.get("state") ?? "";
    choice.addEventListener("change", () => {
      filterBy({ state: choice.value });
      context.refresh();
    });
    return h("label", { class: "field" }, "State", choice);
  },
  async ask({ query, route }) {
    const state = STATES.includes(route.query.get("state")) ? route.query.get("state") : "";
    return (await get(`/operations?${query}&limit=${LISTED}${state ? `&state=${state}` : ""}`)).body;
  },
  draw(body, { items, next_page_token: more }, { cluster }) {
    if (items.length === 0) return show(body, h("p", { class: "empty" }, "There are none."));
    return show(
      body,
      table("Operations", [["Operation"], ["State"], ["Progress"], ["Who and why", "why"]], items.map((operation) => row(operation, cluster.name))),
      more ? h("p", { class: "empty" }, `The newest ${LISTED} are shown.`) : null,
    );
  },
};

function row(operation, cluster) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, h("a", { href: hrefOf(cluster, "operations", operation.id) }, title(operation))),
    h("td", {}, badge(operation.state)),
    h("td", {}, progress(operation)),
    h("td", { class: "why" }, operation.reason, h("span", { class: "quiet" }, `${operation.actor}, `, ago(operation.created_at))),
  );
}

export const operationView = {
  title: () => "Operation",
  tools(context) {
    const own = `/operations/${encodeURIComponent(context.route.id)}`;
    const button = (text, action) => actionButton(text, action, context);
    return [
      button("Pause", () => steerOperation(own, "pause")),
      button("Resume", () => steerOperation(own, "resume")),
      button("Throttle", () => throttleOperation(own)),
      button("Cancel", () => cancelOperation(own)),
      button("Undo", () => undoOperation(own)),
    ];
  },
  async ask({ route }) {
    const path = `/operations/${encodeURIComponent(route.id)}`;
    const operation = (await get(path)).body;
    const moves = operation.links.moves ? (await get(`${path}/moves?limit=${LISTED}`)).body : { items: [], next_page_token: null };
    return { operation, moves };
  },
  draw(body, { operation, moves }) {
    const list = (label, items) => (items.length === 0 ? null : [h("h2", {}, label), h("ul", { class: "blocked" }, items.slice(0, LISTED).map((item) => h("li", {}, item.topic ? `${item.topic}-${item.partition}: ` : null, item.detail)))]);
    show(
      body,
      h("p", { class: "line" }, h("b", {}, title(operation)), badge(operation.state)),
      operation.reason ? h("p", { class: "reason" }, operation.reason) : null,
      progress(operation),
      h("ol", { class: "steps" }, stepsOf(operation).map((step) => h("li", { class: step.state }, words(step.name), h("span", { class: "unseen" }, `: ${step.state}`)))),
      operation.error ? h("p", { class: "reason" }, operation.error.detail) : null,
      operation.summary ? h("p", {}, operation.summary) : null,
      operation.cancellation ? h("p", {}, `${capital(operation.cancellation.detail)}.`) : null,
      figures([
        ["Asked for by", operation.actor],
        ["Begun", operation.started_at ? clock(operation.started_at) : "not yet"],
        ["Ended", operation.finished_at ? clock(operation.finished_at) : "not yet"],
        ["Must end by", operation.deadline_at === null ? "no deadline" : clock(operation.deadline_at)],
        ["Speed", speed(operation) ?? "unknown"],
        ["Throttle", operation.progress.throttle_bytes_per_s === null ? "none" : `${bytes(operation.progress.throttle_bytes_per_s)}/s`],
      ]),
      list("Waits for", operation.blocked),
      list("Refused", operation.refused),
      moves.items.length === 0 ? null : [h("h2", {}, "Moves"), table("Moves", [["Partition"], ["State"], ["From and to"], ["Copied", "number"], ["Left", "number"]], moves.items.map(moveRow))],
      moves.next_page_token ? h("p", { class: "empty" }, `The first ${LISTED} are shown.`) : null,
    );
  },
};

function moveRow(move) {
  const left = move.eta?.p50_ms ?? null;
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, `${move.topic}-${move.partition}`),
    h("td", {}, badge(move.fate), move.detail || move.blocked ? h("span", { class: "quiet" }, move.detail ?? words(move.blocked)) : null),
    h("td", {}, `${move.replicas_before.join(", ")} → ${move.replicas_after.join(", ")}`),
    h("td", { class: "number" }, move.copied_bytes === null ? "–" : `${bytes(move.copied_bytes)} of ${move.remaining_bytes === null ? "unknown" : bytes(move.copied_bytes + move.remaining_bytes)}`),
    h("td", { class: "number" }, left === null ? "–" : duration(left)),
  );
}
