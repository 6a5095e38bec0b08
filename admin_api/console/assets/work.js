// What is being done to the cluster, and who did what.

import { ago, h, show } from "./dom.js";
import { bytes, capital, clock, count, duration, plural, words } from "./format.js";
import { hrefOf } from "./route.js";
import { differences } from "./settings.js";
import { badge } from "./tables.js";

const FINISHED = new Set(["succeeded", "failed", "cancelled"]);
const FINISHED_SHOWN = 4;
const EVENTS_SHOWN = 12;
/** Of one event. */
const CHANGES_LISTED = 30;
/** Rows of one event are written together. */
const TOGETHER_MS = 10_000;

export function showOperations(section, answer) {
  const body = section.querySelector(".body");
  if (answer.failure) {
    show(body, h("p", { class: "empty" }, `${capital(answer.failure.message)}.`));
    return;
  }
  const running = answer.body.items.filter((operation) => !FINISHED.has(operation.state));
  const finished = answer.body.items.filter((operation) => FINISHED.has(operation.state)).slice(0, FINISHED_SHOWN);
  show(
    body,
    running.length === 0 ? h("p", { class: "empty" }, "None is running.") : null,
    h("ul", { class: "operations" }, running.map(runningOperation), finished.map(finishedOperation)),
  );
}

export function title(operation) {
  try {
    return titleOf(operation);
  } catch {
    return capital(words(operation.kind)); // a later release's, which asks in another way
  }
}

function titleOf(operation) {
  const { spec } = operation;
  if (operation.kind === "broker_add") {
    const ids = spec.brokers.map((broker) => broker.broker_id);
    return `${ids.length === 1 ? "Add broker" : "Add brokers"} ${ids.join(", ")}`;
  }
  if (operation.kind === "topic_delete") return `Delete topic ${spec.topic}`;
  if (operation.kind === "leader_election") return `Elect ${spec.topic}-${spec.partition}'s ${spec.election} leader`;
  if (operation.kind === "broker_demote") return `Demote broker ${spec.broker_id}`;
  if (operation.kind === "broker_return") return `Take back broker ${spec.broker_id}`;
  if (operation.kind === "partitions_add") return `Enlarge topic ${spec.topic} to ${plural(spec.partitions, "partition")}`;
  if (operation.kind === "preferred_election") return `Elect preferred leaders of ${plural(spec.elected + spec.refused, "partition")}`;
  if (operation.kind === "reassignment") return moved(spec.moves);
  if (operation.kind === "reassignment_cancel") return `Bring ${spec.topic}-${spec.partition} back to brokers ${spec.replicas.join(", ")}`;
  if (operation.kind === "broker_drain") return `Drain broker ${spec.broker_id}`;
  if (operation.kind === "plan_execution") return spec.undoes ? `Undo ${spec.undoes}` : `Carry out ${spec.plan_id}`;
  if (operation.kind === "replication_factor_change") return `Give topic ${spec.topic} ${plural(spec.replication_factor, "replica")}`;
  return capital(words(operation.kind));
}

function moved(moves) {
  if (moves.length > 1) return `Move ${plural(moves.length, "partition")}`;
  const [move] = moves;
  return `Move ${move.topic}-${move.partition} to brokers ${move.replicas.join(", ")}`;
}

function linked(operation) {
  return h("a", { href: hrefOf(operation.cluster, "operations", operation.id) }, title(operation));
}

function runningOperation(operation) {
  return h(
    "li",
    { class: "running" },
    h("p", { class: "line" }, h("b", {}, linked(operation)), badge(operation.state)),
    operation.reason ? h("p", { class: "reason" }, operation.reason) : null,
    progress(operation),
    h("ol", { class: "steps" }, stepsOf(operation).map((step) => h("li", { class: step.state }, words(step.name), h("span", { class: "unseen" }, `: ${step.state}`)))),
    operation.blocked.length === 0 ? null : h("ul", { class: "blocked", "aria-label": "Waits for" }, operation.blocked.slice(0, 5).map((item) => h("li", {}, item.detail)), operation.blocked.length > 5 ? h("li", {}, `and ${plural(operation.blocked.length - 5, "more", "more")}`) : null),
    h("p", { class: "quiet" }, `${operation.actor}, `, ago(operation.created_at)),
  );
}

/** Those that this operation has: a step that is skipped is none of it. */
export function stepsOf(operation) {
  return operation.steps.filter((step) => step.state !== "skipped");
}

/** Of bytes where it moves any, of moves, else of its steps. */
export function progress(operation) {
  const { bytes_total: bytesTotal, bytes_done: bytesDone, moves_total: movesTotal, moves_done: movesDone } = operation.progress;
  const steps = stepsOf(operation);
  const over = steps.filter((step) => step.state === "succeeded").length;
  let [done, total, text] = [over, steps.length, `${over} of ${plural(steps.length, "step")}`];
  if (bytesTotal) [done, total, text] = [bytesDone, bytesTotal, `${bytes(bytesDone)} of ${bytes(bytesTotal)}`];
  else if (movesTotal) [done, total, text] = [movesDone, movesTotal, `${count(movesDone)} of ${plural(movesTotal, "move")}`];
  if (!total) return null;
  const fast = FINISHED.has(operation.state) ? null : speed(operation);
  return [
    h("div", { class: "progress" }, h("progress", { max: total, value: done ?? 0, "aria-label": title(operation) }), h("span", {}, text)),
    fast ? h("p", { class: "quiet" }, fast) : null,
  ];
}

/** What REST tells of its speed and its end; null: nothing. */
export function speed({ progress: { rate_bytes_per_s: rate, eta } }) {
  const parts = [rate === null ? null : `${bytes(rate)}/s`, eta === null || eta.p50_ms === null ? null : `about ${duration(eta.p50_ms)} left`].filter((part) => part !== null);
  return parts.length > 0 ? parts.join(", ") : null;
}

function finishedOperation(operation) {
  return h(
    "li",
    { class: "finished" },
    h("p", { class: "line" }, h("span", {}, linked(operation)), badge(operation.state)),
    operation.error ? h("p", { class: "reason" }, operation.error.detail) : null,
    operation.state === "cancelled" && operation.summary ? h("p", { class: "reason" }, operation.summary) : null,
    h("p", { class: "quiet" }, `${operation.actor}, `, ago(operation.finished_at ?? operation.created_at)),
  );
}

/** operations: those that are known, by whose ids and requests changes are folded. */
export function showAudit(section, answer, operations) {
  const body = section.querySelector(".body");
  if (answer.failure) {
    show(body, h("p", { class: "empty" }, `${capital(answer.failure.message)}.`));
    return;
  }
  const known = operations.body?.items ?? [];
  const events = eventsOf(answer.body.items, known).slice(0, EVENTS_SHOWN);
  show(body, events.length === 0 ? h("p", { class: "empty" }, "Nothing yet.") : h("ol", { class: "audit" }, events));
}

/** A line of a list for each thing that was done. */
export function eventsOf(rows, operations) {
  return together(rows, operations).map((rowsOfOne) => event(rowsOfOne, operations));
}

/** Whether these rows are so few things that older rows must be asked for. */
export function isOneThing(rows, operations) {
  return together(rows, operations).length < EVENTS_SHOWN / 2;
}

/** One operation or request, or one broker's death, changes many entities: what belongs to it is one line, newest
 * first. */
function together(rows, operations) {
  const begunBy = new Map(operations.map((operation) => [operation.request_id, operation.id]));
  const events = [];
  const byOrigin = new Map();
  for (const row of rows) {
    const origin = (row.kind === "change" ? row.operation_id : null) ?? begunBy.get(row.request_id) ?? row.request_id ?? null;
    const last = events.at(-1)?.at(-1);
    const same = origin === null && last && ["kind", "cause", "entity", "actor", "reason", "request_id", "operation_id"].every((name) => last[name] === row[name]);
    if (origin !== null && byOrigin.has(origin)) byOrigin.get(origin).push(row);
    else if (same && Math.abs(Date.parse(last.at) - Date.parse(row.at)) < TOGETHER_MS) events.at(-1).push(row);
    else {
      events.push([row]);
      if (origin !== null) byOrigin.set(origin, events.at(-1));
    }
  }
  return events;
}

/** A request or an operation stands for what it led to. */
function event(rows, operations) {
  const request = rows.find((other) => other.kind === "request");
  const row = request ?? rows[0];
  const changes = rows.filter((other) => other.kind === "change");
  const operation = request ? null : operations.find((other) => other.id === row.operation_id);
  const isOne = request !== undefined || rows.length === 1;
  const what = operation ? [h("b", {}, title(operation))] : [h("b", {}, words(row.cause)), h("span", { class: "about" }, isOne ? about(row) : plural(rows.length, row.entity))];
  return h(
    "li",
    {},
    h("p", { class: "line" }, what, outcome(row)),
    row.reason ? h("p", { class: "reason" }, row.reason) : null,
    changes.length === 1 ? difference(changes[0]) : changes.length > 1 ? list(changes, row.operation_id ?? row.request_id ?? row.id) : null,
    h("p", { class: "quiet" }, h("time", { datetime: row.at, title: new Date(row.at).toLocaleString() }, clock(row.at)), ` · ${row.actor}`, row.gap_before ? " · changes before it may be missing" : ""),
  );
}

function about(row) {
  if (row.entity === "partition" && row.partition !== null) return `${row.topic}-${row.partition}`;
  if (row.entity === "topic") return row.topic ?? row.entity_id;
  return `${row.entity} ${row.entity_id.replaceAll(",", ", ")}`;
}

function list(changes, key) {
  const entities = ["cluster", "broker", "coordinator", "topic", "partition"].map((entity) => [entity, changes.filter((row) => row.entity === entity)]);
  const sums = entities.filter(([, rows]) => rows.length > 0).map(([entity, rows]) => plural(new Set(rows.map((row) => row.entity_id)).size, entity));
  return h(
    "details",
    { "data-key": `audit-${key}` },
    h("summary", {}, sums.join(", ")),
    h("ul", { class: "changes" }, changes.slice(0, CHANGES_LISTED).map((row) => h("li", {}, `${about(row)}: ${words(row.cause)}`, difference(row))), changes.length > CHANGES_LISTED ? h("li", {}, `and ${count(changes.length - CHANGES_LISTED)} more: GET /audit has them`) : null),
  );
}

function outcome(row) {
  if (row.kind !== "request") return null;
  if (row.outcome === null) return badge("waiting", "no outcome yet");
  return row.outcome.outcome === "succeeded" ? null : badge(row.outcome.outcome === "refused" ? "failed" : "waiting", row.outcome.code ?? row.outcome.outcome);
}

/** What has changed, in a line: "leader 1 → 2". Epochs count changes and say nothing more. */
function difference(row) {
  if (row.kind !== "change" || row.before === null || row.after === null) return null;
  const changed = Object.keys(row.after).filter((name) => !name.endsWith("epoch") && JSON.stringify(row.before[name]) !== JSON.stringify(row.after[name]));
  if (changed.length === 0) return null;
  return h("p", { class: "difference" }, changed.slice(0, 3).map((name) => name === "configs" ? differences(row.before.configs ?? {}, row.after.configs ?? {}) : h("span", {}, `${words(name)} ${value(row.before[name])} → ${value(row.after[name])}`)));
}

function value(of) {
  if (of === null || of === undefined || of === -1) return "none";
  if (Array.isArray(of)) return `[${of.join(", ")}]`;
  return typeof of === "object" ? "…" : String(of);
}
