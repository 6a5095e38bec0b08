// What a dry run answers, in a few lines: REST's own answer, by what kind of thing it is.

import { h } from "./dom.js";
import { bytes, capital, count, plural, words } from "./format.js";
import { settingText } from "./settings.js";
import { aclText, entityOf } from "./rights.js";

const LISTED = 30;

/** answer: { body } of a dry run. request: what was asked for. */
export function outcomeOf({ body }, { method, path }) {
  if (path.endsWith("/acls")) return ofAddedAcls(body.items);
  if (path.endsWith("/acls:delete")) return ofRemovedAcls(body.items);
  if (path.endsWith("/quotas:alter")) return ofQuotas(body.items);
  if (body.mechanisms) return line(method === "DELETE" ? `delete the user ${body.user}` : `let ${body.user} log in with this password, by ${body.mechanisms.map((one) => one.mechanism).join(" and ")}`);
  if (body.assignments && body.topic) return method === "PATCH" ? ofMorePartitions(body) : ofTopic(body);
  if (body.waits_for_brokers && body.topic) return line(`delete topic ${body.topic.name}; ${plural(body.waits_for_brokers.length, "broker deletes its", "brokers delete their")} replicas${body.kept_until ? ` after ${new Date(body.kept_until).toLocaleString()}: until then it can be restored` : ""}`);
  if (path.endsWith(":restore")) return [line(`restore topic ${body.topics.join(", ")} with ${plural(body.partitions.length, "partition")}`), warnings(body.undecided.map((item) => `partition ${item.partition} has no replica that provably holds every acknowledged record: an operator has to choose its leader`))];
  if ("log_start_offset_before" in body) return ofDeletedRecords(body);
  if (path.endsWith(":undo") && body.items?.[0]?.source) return body.items.map((item) => line(`make ${item.name} ${settingText(item.name, item.value)}, from ${item.source}`));
  if (body.checks && body.plans) return ofNewBrokers(body);
  if (body.totals) return ofPlan(body);
  if ("leaders_moved" in body) return [line(`move ${plural(body.leaders_moved, "leadership")} at once`), warnings(body.warnings)];
  if (body.elected && body.refused) return ofElections(body);
  if ("is_read_only" in body) return [line(`make ${body.name} ${settingText(body.name, body.value)}, from ${body.source}`)];
  if ("protocol_type" in body) return line(`delete the ${words(body.state)} group ${body.group_id} with its offsets`);
  if ("until" in body) return line(`${method === "DELETE" ? "end the silence that would last" : "silence alarms"} until ${body.until}`);
  if ("fences" in body) return [line(`end it as aborted from offset ${count(body.first_offset)}: ${freedText(body.freed_records)}`), warnings(body.fences === null ? [] : [`${body.fences} still has its producer epoch: it is fenced first, and what it has open elsewhere is aborted`])];
  if ("freed_records" in body) return ofAbort(body);
  if ("group_id" in body) return ofOffsets(body);
  if (body.items?.[0]?.coordinator_id !== undefined) return line(`admit ${body.items.map((item) => `coordinator ${item.coordinator_id} at ${item.endpoint}`).join(", ")}`);
  if (body.kind && body.steps) return [line(`leave the operation ${words(body.state)}${method === "PATCH" ? `, ${body.progress.throttle_bytes_per_s === null ? "unthrottled" : `at ${bytes(body.progress.throttle_bytes_per_s)}/s for each broker`}` : ""}`), body.cancellation ? line(body.cancellation.detail) : null, warnings(body.blocked.map((item) => item.detail))];
  if ("settle_s" in body) return line(method === "DELETE" ? `delete the webhook ${body.name}` : `tell alarms to ${body.host}, as ${body.format}${body.enabled ? "" : ", but not yet: it is disabled"}`);
  if ("level_before" in body) return line(body.level === body.level_before ? `change nothing: level ${body.level} is the highest` : `raise the level from ${body.level_before} to ${body.level}, of release ${body.release}, for good`);
  if ("delivered" in body) return line("send one sample message");
  return line("be carried out");
}

function line(text) {
  return h("p", {}, capital(text), ".");
}

function warnings(texts) {
  return texts.length === 0 ? null : h("ul", { class: "blocked", "aria-label": "Warnings" }, texts.slice(0, LISTED).map((text) => h("li", {}, text)), rest(texts.length));
}

function rest(total) {
  return total > LISTED ? h("li", {}, `and ${count(total - LISTED)} more`) : null;
}

function listed(label, items) {
  return items.length === 0 ? null : h("details", {}, h("summary", {}, label), h("ul", { class: "changes" }, items.slice(0, LISTED).map((text) => h("li", {}, text)), rest(items.length)));
}

function ofTopic({ topic, assignments }) {
  return [
    line(`create ${topic.name} with ${plural(topic.partitions, "partition")} of ${plural(topic.replication_factor, "replica")}, ${topic.min_insync_replicas} of them in sync for acks=all`),
    warnings(topic.warnings),
    listed("Where", assignments.map((placed) => `${placed.partition}: brokers ${placed.replicas.join(", ")}`)),
  ];
}

function ofMorePartitions({ topic, assignments }) {
  return [
    line(`give ${topic.name} ${plural(assignments.length, "more partition")}, ${count(topic.partitions)} in all: keys move to other partitions`),
    listed("Where", assignments.map((placed) => `${placed.partition}: brokers ${placed.replicas.join(", ")}`)),
  ];
}

function ofDeletedRecords({ topic, partition, deleted, log_start_offset: start, log_end_offset: end }) {
  if (deleted === 0) return line(`delete nothing: ${topic}-${partition} begins at offset ${count(start)} already`);
  return line(`delete ${plural(deleted, "offset")} of ${topic}-${partition}; offsets ${count(start)} to ${count(end)} stay`);
}

function ofNewBrokers({ brokers, moves, bytes: copied, warnings: texts, checks, plans }) {
  return [
    line(`add ${plural(brokers.length, "broker")} and move ${plural(moves, "partition")}, copying ${bytes(copied)}`),
    warnings([...new Set([...texts, ...checks.filter((check) => check.state === "failed").map((check) => check.detail)])]),
    plans.map((plan) => movesOf(plan)),
  ];
}

function ofPlan(plan) {
  const { moves, bytes: copied, unknown_sizes: unknown } = plan.totals;
  return [
    line(plan.outcome === "ready" ? `move ${plural(moves, "partition")}, copying ${bytes(copied)}${unknown > 0 ? ` and what ${plural(unknown, "partition")} of unknown size hold` : ""}` : words(plan.outcome)),
    warnings(plan.rejections.map((rejection) => rejection.detail).filter((detail) => detail)),
    movesOf(plan),
  ];
}

function movesOf(plan) {
  return listed("Which", plan.moves.map((move) => `${move.topic}-${move.partition}: ${(move.replicas_before ?? move.original ?? []).join(", ")} → ${(move.replicas_after ?? move.replicas ?? []).join(", ")}`));
}

function ofAddedAcls(items) {
  const [old, fresh] = [items.filter((acl) => !acl.is_new), items.filter((acl) => acl.is_new)];
  return [line(fresh.length === 0 ? "change nothing: they are there already" : `add ${plural(fresh.length, "ACL")}`), every(fresh.map(aclText)), listed(`${plural(old.length, "ACL")} there already`, old.map(aclText))];
}

function ofRemovedAcls(items) {
  return [line(items.length === 0 ? "change nothing: no ACL is like this" : `remove ${plural(items.length, "ACL")}`), every(items.map(aclText))];
}

function ofQuotas(items) {
  return items.map((item) => {
    const quotas = Object.entries(item.quotas).map(([name, value]) => `${name} ${count(value)}`);
    return [line(`leave ${entityOf(item)} with ${quotas.length === 0 ? "no quota" : "these quotas"}`), every(quotas)];
  });
}

/** Seen without a click: what is allowed is read before it is. */
function every(texts) {
  return texts.length === 0 ? null : h("ul", { class: "changes" }, texts.slice(0, LISTED).map((text) => h("li", {}, text)), rest(texts.length));
}

function ofElections({ elected, refused }) {
  return [
    line(`move ${plural(elected.length, "leader")} back`),
    listed("Which", elected.map((one) => `${one.topic}-${one.partition}: broker ${one.leader}`)),
    warnings(refused.map((one) => `${one.topic}-${one.partition}: ${one.detail}`)),
  ];
}

function freedText(freed) {
  return freed === null ? "how many records readers get by it is not known" : `readers get ${plural(freed, "record")} by it`;
}

function ofAbort({ freed_records: freed, partitions }) {
  const where = partitions.length === 0 ? "which is open in no partition" : `open in ${plural(partitions.length, "partition")}`;
  return [
    line(`abort the transaction, ${where}: ${freedText(freed)}`),
    listed("Where", partitions.map((item) => `${item.topic}-${item.partition}: ${item.waiting_records === null ? "unknown" : `${count(item.freed_records)} of ${plural(item.waiting_records, "record")} that wait`}`)),
  ];
}

function ofOffsets({ items }) {
  const again = items.reduce((sum, item) => sum + Math.max(0, (item.before ?? item.after) - item.after), 0);
  const skipped = items.reduce((sum, item) => sum + Math.max(0, item.after - (item.before ?? item.after)), 0);
  const effect = (records, what) => (records === 0 ? "" : `: ${plural(records, "record")} ${records === 1 ? "is" : "are"} ${what}`);
  return [
    line(`set ${plural(items.length, "offset")}${effect(again, "read again")}${effect(skipped, "skipped")}`),
    listed("Which", items.map((item) => `${item.topic}-${item.partition}: ${item.before === null ? "none" : count(item.before)} → ${count(item.after)}`)),
  ];
}
