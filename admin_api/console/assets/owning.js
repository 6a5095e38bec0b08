// What the owner of a topic does from the page: guard it, enlarge it, copy its settings, delete records or all of it.

import { actionButton } from "./actions.js";
import { NoAnswer, ask, everyOne, get } from "./api.js";
import { h, s } from "./dom.js";
import { bytes, count, plural } from "./format.js";

const GUARD = "deletion.protected";
/** Groups that are asked whether they read a topic. */
const GROUPS_ASKED = 40;

/** The buttons of a topic's view. */
export function ownersTools(context) {
  const button = (text, action) => actionButton(text, () => action(context), context);
  return [button("Add partitions", addPartitions), button("Copy settings", copySettings), button("Delete records", deleteRecords), button("Delete topic", deleteTopic)];
}

export function isGuarded({ configs }) {
  return configs[GUARD] === "true";
}

/** A lock, for a topic that is not deleted. */
export function lock() {
  return s("svg", { class: "lock", viewBox: "0 0 12 12", role: "img", "aria-label": "guarded against deletion" }, s("path", { d: "M3 5V4a3 3 0 0 1 6 0v1h.5a.5.5 0 0 1 .5.5v5a.5.5 0 0 1-.5.5h-7a.5.5 0 0 1-.5-.5v-5a.5.5 0 0 1 .5-.5zm1.2 0h3.6V4a1.8 1.8 0 0 0-3.6 0z" }));
}

function ownAddress({ path, route }) {
  return `${path}/topics/${encodeURIComponent(route.id)}`;
}

async function addPartitions(context) {
  const own = ownAddress(context);
  const { body: topic } = await get(own);
  return {
    title: `Add partitions to ${topic.name}`,
    before: `It has ${plural(topic.partitions, "partition")}, and can't get fewer. A producer that chooses the partition by a record's key sends later records of many keys to other partitions: then the records of a key are no longer in one order.`,
    fields: [{ name: "partitions", text: "Partitions that it shall have", type: "number", min: topic.partitions + 1, value: topic.partitions + 1, needed: true }],
    versionOf: own,
    request: ({ partitions }) => ({ method: "PATCH", path: own, body: { partitions: Number(partitions) } }),
  };
}

/** A new topic whose form is filled in with this one's settings. */
async function copySettings(context) {
  const { body: topic } = await get(ownAddress(context));
  const configs = Object.entries(topic.configs).filter(([name]) => name !== GUARD);
  return {
    title: `Create a topic like ${topic.name}`,
    before: "Its settings are copied, and no record is.",
    fields: [
      { name: "name", text: "Name", needed: true },
      { name: "partitions", text: "Partitions", type: "number", min: 1, value: topic.partitions, needed: true },
      { name: "replication_factor", text: "Replicas of each", type: "number", min: 1, value: topic.replication_factor, needed: true },
      ...configs.map(([name, value]) => ({ name: `configs.${name}`, text: name, value, hint: "empty: the cluster's default" })),
      { name: GUARD, text: "Guard it against deletion", type: "checkbox", value: isGuarded(topic) },
    ],
    request: ({ name, partitions, replication_factor: factor, [GUARD]: guarded, ...values }) => {
      const set = configs.map(([setting]) => [setting, values[`configs.${setting}`]]).filter(([, value]) => value !== "");
      const copied = Object.fromEntries(guarded ? [...set, [GUARD, "true"]] : set);
      return { method: "POST", path: `${context.path}/topics`, body: { name, partitions: Number(partitions), replication_factor: Number(factor), configs: copied } };
    },
  };
}

const PLACES = [["offset", "all before an offset"], ["time", "all before a time"], ["all", "all that there are"]];
const onlyFor = (kind) => (values) => values.kind === kind;

async function deleteRecords(context) {
  const own = ownAddress(context);
  const { items } = await everyOne(`${own}/partitions`);
  const held = ({ log_start_offset: start, log_end_offset: end }) => (end === null ? "" : `, offsets ${count(start)} to ${count(end)}`);
  return {
    title: `Delete records of ${context.route.id}`,
    before: "They do not come back, and a group that has not read them never will.",
    fields: [
      { name: "partition", text: "Of the partition", options: items.map((item) => [String(item.partition), `${item.partition}${held(item)}`]) },
      { name: "kind", text: "Records", options: PLACES },
      { name: "offset", text: "First offset to keep", type: "number", min: 0, needed: true, isFor: onlyFor("offset") },
      { name: "time", text: "Time, as on your clock", type: "datetime-local", step: 1, needed: true, isFor: onlyFor("time") },
      confirmation(context.route.id, "topic"),
    ],
    request: ({ partition, kind, offset, time }) => {
      const before = kind === "all" ? { all: true } : kind === "time" ? { before_time: new Date(time).toISOString() } : { before_offset: Number(offset) };
      return { method: "POST", path: `${own}/partitions/${partition}:delete-records`, body: before };
    },
  };
}

async function deleteTopic(context) {
  const own = ownAddress(context);
  const [{ body: topic }, partitions] = await Promise.all([get(own), everyOne(`${own}/partitions`)]);
  const known = partitions.items.filter((item) => item.size_bytes !== null);
  const size = known.reduce((sum, item) => sum + item.size_bytes, 0);
  const records = known.reduce((sum, item) => sum + item.log_end_offset - item.log_start_offset, 0);
  const rest = partitions.items.length - known.length;
  return {
    title: `Delete topic ${topic.name}`,
    before: `What is lost: ${plural(topic.partitions, "partition")} with ${plural(records, "offset")} and ${bytes(size)} in one copy${rest > 0 ? `; of ${plural(rest, "partition")} it is not known` : ""}.`,
    learn: () => readersOf(topic.name, context),
    fields: [confirmation(topic.name, "topic")],
    versionOf: own,
    request: () => ({ method: "DELETE", path: own }),
  };
}

/** Bring back one of the deleted topics that are kept. */
export async function restoreTopic({ path }) {
  const { items } = await everyOne(`${path}/deleted-topics`);
  const day = (time) => new Date(time).toLocaleString();
  return {
    title: "Restore a deleted topic",
    before:
      items.length === 0
        ? "No deleted topic is kept. One that is deleted while deleted.topic.retention.ms is above 0 can be restored for so long."
        : "It comes back with its id, records, offsets and settings.",
    fields: [
      { name: "topic", text: "Topic", needed: true, options: items.map((item) => [item.topic_id, `${item.name}, ${bytes(item.size_bytes)}, deleted ${day(item.deleted_at)} by ${item.deleted_by}, kept until ${day(item.kept_until)}`]) },
      { name: "name", text: "Under another name", hint: "empty: the name that it had" },
    ],
    request: ({ topic, name }) => ({ method: "POST", path: `${path}/deleted-topics/${encodeURIComponent(topic)}:restore`, body: name === "" ? {} : { name } }),
  };
}

/** A field in which the name is typed, so that the wrong thing is not deleted by a click. */
function confirmation(name, what) {
  return { name: "confirmation", text: `Type the ${what}'s name`, needed: true, mustBe: name, hint: name };
}

/** A line about the groups that have read a topic, or why it is not known. */
async function readersOf(topic, { path }) {
  try {
    return h("p", { class: "quiet" }, await readers(topic, path));
  } catch (failure) {
    if (failure instanceof NoAnswer) return h("p", { class: "quiet" }, `Which groups read it is not known: ${failure.message}.`);
    throw failure;
  }
}

async function readers(topic, path) {
  const { body: listed } = await get(`${path}/groups?limit=${GROUPS_ASKED}`);
  const found = await Promise.all(listed.items.map(({ group_id: id }) => ask(`${path}/groups/${encodeURIComponent(id)}`)));
  const told = found.filter((group) => group.body).map((group) => group.body);
  const reading = told.filter((group) => group.partitions.some((one) => one.topic === topic)).map((group) => group.group_id);
  const among = listed.next_page_token || told.length < found.length || listed.unanswered.length > 0 ? `, of the ${plural(told.length, "group")} that told` : "";
  return reading.length === 0 ? `No group reads it${among}.` : `${plural(reading.length, "group reads", "groups read")} it${among}: ${reading.join(", ")}.`;
}
