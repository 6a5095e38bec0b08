// The changes that the page offers: their fields, and the request that each becomes.

import { get } from "./api.js";
import { bytes } from "./format.js";
import { settingText } from "./settings.js";

/** A number that was left out is not sent. */
function numbers(values, names) {
  return Object.fromEntries(names.filter((name) => values[name] !== "").map((name) => [name, Number(values[name])]));
}

const THROTTLE = { name: "throttle_bytes_per_s", text: "Bytes per second, for each broker", type: "number", min: 1, hint: "empty: unthrottled" };

export function createTopic({ path }) {
  return {
    title: "Create a topic",
    fields: [
      { name: "name", text: "Name", needed: true },
      { name: "partitions", text: "Partitions", type: "number", min: 1, hint: "empty: the cluster's default" },
      { name: "replication_factor", text: "Replicas of each", type: "number", min: 1, hint: "empty: the cluster's default" },
      { name: "minimum", text: "min.insync.replicas", type: "number", min: 1, hint: "empty: the cluster's default" },
    ],
    request: ({ name, minimum, ...values }) => ({
      method: "POST",
      path: `${path}/topics`,
      body: { name, ...numbers(values, ["partitions", "replication_factor"]), configs: minimum === "" ? {} : { "min.insync.replicas": minimum } },
    }),
  };
}

/** holder: the address of the topic or broker. item: the setting as it is. */
export function changeSetting(holder, item) {
  const own = `${holder}/configs/${encodeURIComponent(item.name)}`;
  return {
    title: `Change ${item.name}`,
    before: `It is ${settingText(item.name, item.value)} now, from ${item.source}; the default is ${item.default ?? "none"}.`,
    fields: [
      { name: "value", text: "Value", value: item.value ?? "", ...(item.name.endsWith(".ms") ? { hint: "milliseconds, or with units: 7 d, 1 h 30 min" } : {}) },
      { name: "unset", text: "Unset it: the default applies", type: "checkbox" },
    ],
    versionOf: `${holder}/configs`,
    request: ({ value, unset }) => (unset ? { method: "DELETE", path: own } : { method: "PUT", path: own, body: { value } }),
  };
}

export function addBroker({ path }) {
  return {
    title: "Add a broker",
    fields: [
      { name: "broker_id", text: "Id", type: "number", min: 0, needed: true },
      { name: "endpoint", text: "Endpoint", needed: true, hint: "such as store4:9092" },
      { name: "mode", text: "Data that is stored already", options: [["new_only", "gives the new broker its share"], ["full", "is evened out between all"], ["none", "stays where it is"]] },
      THROTTLE,
    ],
    request: ({ endpoint, mode, ...values }) => ({
      method: "POST",
      path: `${path}/brokers`,
      body: { ...numbers(values, ["broker_id"]), endpoint, rebalance: { mode, ...numbers(values, ["throttle_bytes_per_s"]) } },
    }),
  };
}

export function admitCoordinator({ path }) {
  return {
    title: "Admit a coordinator",
    before: "It takes over its share of the client groups once it has read their state.",
    fields: [{ name: "coordinator_id", text: "Id", type: "number", min: 0, needed: true, hint: "of one that waits" }],
    request: (values) => ({ method: "POST", path: `${path}/coordinators`, body: { coordinator_ids: [Number(values.coordinator_id)] } }),
  };
}

const RESET_TARGETS = [["earliest", "the first record"], ["latest", "the end"], ["time", "the first record since a time"], ["offset", "an offset"], ["shift", "forward or back by a number of records"]];
const onlyFor = (kind) => (values) => values.kind === kind;

/** own: the group's address. */
export function resetOffsets(own, id) {
  return {
    title: `Reset the offsets of ${id}`,
    before: "Where it continues reading. Stop its clients first.",
    fields: [
      { name: "kind", text: "To", options: RESET_TARGETS },
      { name: "time", text: "Time, as on your clock", type: "datetime-local", step: 1, needed: true, isFor: onlyFor("time") },
      { name: "offset", text: "Offset", type: "number", min: 0, needed: true, hint: "the nearest that a log has", isFor: onlyFor("offset") },
      { name: "by", text: "Records", type: "number", needed: true, hint: "below 0: back", isFor: onlyFor("shift") },
      { name: "topics", text: "Topics", hint: "with a comma between them; empty: all that it has offsets of" },
    ],
    request: ({ kind, time, topics, ...values }) => {
      const to = { kind, ...(kind === "time" ? { time: new Date(time).toISOString() } : numbers(values, kind === "offset" ? ["offset"] : kind === "shift" ? ["by"] : [])) };
      const named = topics.split(",").map((name) => name.trim()).filter((name) => name !== "");
      return { method: "POST", path: `${own}:reset-offsets`, body: named.length === 0 ? { to } : { to, topics: named } };
    },
  };
}

export function deleteGroup(own, id) {
  return { title: `Delete group ${id}`, before: "Its offsets go with it: clients that come back begin where auto.offset.reset says.", request: () => ({ method: "DELETE", path: own }) };
}

export function abortTransaction(own, id) {
  return { title: `Abort the transaction of ${id}`, before: "Its producer is fenced: it gets an error, and has to begin again.", request: () => ({ method: "POST", path: `${own}:abort`, body: {} }) };
}

/** item: a transaction that hangs. */
export function endHanging({ path }, { topic, partition, producer_id: producer }) {
  return {
    title: `End the transaction of producer ${producer} in ${topic}-${partition}`,
    before: "The partition's leader ends it as aborted: nothing else will.",
    request: () => ({ method: "POST", path: `${path}/topics/${encodeURIComponent(topic)}/partitions/${partition}:end-transaction`, body: { producer_id: producer } }),
  };
}

/** own: the broker's address. */
export function drainBroker(own, id) {
  return { title: `Drain broker ${id}`, fields: [THROTTLE], versionOf: own, request: (values) => ({ method: "POST", path: `${own}:drain`, body: numbers(values, ["throttle_bytes_per_s"]) }) };
}

export function demoteBroker(own, id) {
  return { title: `Demote broker ${id}`, before: "Its leaderships move away; its replicas stay.", versionOf: own, request: () => ({ method: "POST", path: `${own}:demote`, body: {} }) };
}

export function returnBroker(own, id) {
  return { title: `Take broker ${id} back`, before: "It may get replicas and lead again.", versionOf: own, request: () => ({ method: "POST", path: `${own}:return`, body: {} }) };
}

/** topic: null: of the whole cluster. */
export function moveLeadersBack({ path }, topic = null) {
  return {
    title: topic === null ? "Move leaders back" : `Move the leaders of ${topic} back`,
    before: "Each partition is led by its first choice again, where that one is in sync.",
    request: () => ({ method: "POST", path: `${path}/partitions:elect-preferred`, body: topic === null ? {} : { topics: [topic] } }),
  };
}

/** verb: "pause" or "resume". own: the operation's address. */
export function steerOperation(own, verb) {
  return { title: verb === "pause" ? "Pause the operation" : "Resume the operation", versionOf: own, followsVersion: true, request: () => ({ method: "POST", path: `${own}:${verb}`, body: {} }) };
}

export function cancelOperation(own) {
  return {
    title: "Cancel the operation",
    fields: [{ name: "mode", text: "What is on its way", options: [["rollback", "goes back"], ["keep", "arrives; nothing else begins"]] }],
    versionOf: own,
    followsVersion: true,
    request: ({ mode }) => ({ method: "POST", path: `${own}:cancel`, query: { mode }, body: {} }),
  };
}

export function undoOperation(own) {
  return {
    title: "Undo the operation",
    before: "What it moved goes back to where it came from; bytes are copied again.",
    fields: [{ name: "skip_conflicts", text: "Leave out partitions that have changed since", type: "checkbox" }],
    versionOf: own,
    followsVersion: true,
    request: ({ skip_conflicts: skips }) => ({ method: "POST", path: `${own}:undo`, body: skips ? { skip_conflicts: true } : {} }),
  };
}

/** The rate of a running operation: its moves go by it at once. */
export async function throttleOperation(own) {
  const { body: operation } = await get(own);
  const rate = operation.progress.throttle_bytes_per_s;
  return {
    title: "Throttle the operation",
    before: `It is ${rate === null ? "unthrottled" : `${bytes(rate)}/s for each broker`} now. Another rate applies at once, also to what is on its way.`,
    fields: [{ ...THROTTLE, value: rate ?? "" }],
    versionOf: own,
    followsVersion: true,
    request: (values) => ({ method: "PATCH", path: own, body: { throttle_bytes_per_s: values.throttle_bytes_per_s === "" ? null : Number(values.throttle_bytes_per_s) } }),
  };
}
