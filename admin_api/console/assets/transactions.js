// Transactions: the list, with those that hang above it, and one with its partitions and who waits for it.

import { actionButton } from "./actions.js";
import { ask } from "./api.js";
import { abortTransaction, endHanging } from "./changes.js";
import { ago, h, show } from "./dom.js";
import { capital, count, duration, plural, words } from "./format.js";
import { listView, narrow } from "./lists.js";
import { hrefOf } from "./route.js";
import { badge, table } from "./tables.js";
import { figures } from "./topics.js";

const ROWS_SHOWN = 500;
const STATES = ["ongoing", "prepare_commit", "prepare_abort", "complete_commit", "complete_abort", "empty"];

export const transactionsView = listView({
  noun: "transactions",
  title: "Transactions",
  order: "-age",
  filters: ["state", "is_live", "lingers", "prefix"],
  nameOf: (item) => item.transactional_id,
  empty: "No transactions yet. A producer with a transactional.id makes one.",
  tools(context) {
    const state = h("select", { id: "filter-state" }, h("option", { value: "" }, "any"), STATES.map((name) => h("option", { value: name }, words(name))));
    state.value = context.route.query.get("state") ?? "";
    state.addEventListener("change", () => narrow(context, { state: state.value }));
    const lingers = h("input", { type: "checkbox", id: "filter-lingers" });
    lingers.checked = context.route.query.get("lingers") === "true";
    lingers.addEventListener("change", () => narrow(context, { lingers: lingers.checked ? "true" : null }));
    return [h("label", { class: "field" }, "State", state), h("label", { class: "field" }, lingers, "Only those that linger")];
  },
  about: (list, context) => [missing(list.unanswered), list.hanging.length === 0 ? null : h("ul", { class: "blocked", "aria-label": "Hanging" }, list.hanging.map((item) => hangingOf(item, context)))],
  told: (failure) => (failure.kind === "problem" ? Promise.resolve({ failure, says: h("p", { class: "empty" }, `${capital(failure.message)}.`) }) : Promise.reject(failure)),
  columns: [
    { text: "Transactional id", sort: "transactional_id", cell: (item, { cluster }) => h("a", { href: hrefOf(cluster.name, "transactions", item.transactional_id) }, item.transactional_id) },
    { text: "State", sort: "state", cell: stateOf },
    { text: "Age", kind: "number", sort: "-age", cell: (item) => duration(item.age_ms) },
    { text: "Timeout", kind: "number", cell: (item) => duration(item.timeout_ms) },
    { text: "Partitions", kind: "number", cell: (item) => count(item.partitions_total) },
    { text: "Records that wait", kind: "number", sort: "-waiting_records", cell: (item) => count(item.waiting_records) },
    { text: "Producer", kind: "number", sort: "producer_id", cell: (item) => count(item.producer_id) },
    { text: "Client", cell: clientOf },
  ],
});

export const transactionView = {
  title: (route) => route.id,
  tools(context) {
    const own = `${context.path}/transactions/${encodeURIComponent(context.route.id)}`;
    return [actionButton("Abort", () => abortTransaction(own, context.route.id), context)];
  },
  ask: ({ path, route }) => ask(`${path}/transactions/${encodeURIComponent(route.id)}`).then(({ body, failure }) => (failure?.kind === "problem" && failure.problem.status !== 404 ? { failure } : failure ? Promise.reject(failure) : { item: body })),
  draw(body, { item, failure }, { cluster }) {
    if (failure) return show(body, h("p", { class: "empty" }, `${capital(failure.message)}.`));
    return show(
      body,
      figures([
        ["State", stateOf(item)],
        ["Began", item.started_at === null ? "none is open" : ago(item.started_at)],
        ["Timeout", duration(item.timeout_ms)],
        ["Records that wait for it", item.waiting_records === null ? "unknown" : count(item.waiting_records)],
        ["Producer", `${item.producer_id}, epoch ${item.producer_epoch ?? "–"}`],
        ["Client", clientOf(item)],
        ["Coordinator", `${item.coordinator_id} at ${item.coordinator_endpoint}`],
      ]),
      h("h2", {}, "Partitions"),
      item.partitions.length === 0 ? h("p", { class: "empty" }, "It is open in none.") : partitionTable(item, cluster.name),
    );
  },
};

function missing(unanswered) {
  return unanswered.length === 0 ? null : h("ul", { class: "blocked", "aria-label": "Not answered" }, h("li", {}, "Transactions are missing here, for not every coordinator answered:"), unanswered.map((text) => h("li", {}, text)));
}

function hangingOf(item, context) {
  const waits = item.waiting_records === null ? "" : `; ${plural(item.waiting_records, "record")} wait`;
  const text = ` from offset ${count(item.first_offset)}: no coordinator has the transaction of producer ${item.producer_id}${waits}. `;
  return h("li", {}, h("b", {}, `${item.topic}-${item.partition} hangs`), text, actionButton("End", () => endHanging(context, item), context));
}

function clientOf(item) {
  return item.client_host === null ? "unknown" : `${item.client_id || "no name"} at ${item.client_host}`;
}

function stateOf(item) {
  const state = badge(item.lingers ? "failed" : { ongoing: "active", complete_commit: "plain", complete_abort: "plain", empty: "plain" }[item.state] ?? "running", words(item.state));
  return item.lingers ? [state, h("span", { class: "quiet" }, "it lingers")] : state;
}

function partitionTable({ partitions }, cluster) {
  const shown = [...partitions].sort((a, b) => (b.waiting_records ?? -1) - (a.waiting_records ?? -1)).slice(0, ROWS_SHOWN);
  return [
    table(
      "Partitions",
      [["Partition"], ["Readers wait at", "number"], ["Records that wait", "number"], ["Freed by its end", "number"]],
      shown.map((item) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, h("a", { href: hrefOf(cluster, "topics", item.topic) }, `${item.topic}-${item.partition}`)),
          h("td", { class: "number" }, count(item.readers_wait_at)),
          h("td", { class: "number" }, item.waiting_records === null ? "unknown" : count(item.waiting_records)),
          h("td", { class: "number" }, count(item.freed_records)),
        ),
      ),
    ),
    shown.length < partitions.length ? h("p", { class: "empty" }, `${count(shown.length)} of ${count(partitions.length)} are shown.`) : null,
  ];
}
