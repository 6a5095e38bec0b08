// The last hour, as the active controller keeps it: which graphs are drawn of a cluster, a broker, a topic, a group.

import { h } from "./dom.js";
import { bytes, capital, count, duration } from "./format.js";
import { graph } from "./graph.js";

/** As in the style sheet. */
const GRAPH_WIDTH_MIN = 340;
const GAP = 24;
const perSecond = (text) => (value) => `${text(value)}/s`;
const short = (value) => count(value < 10 ? Number(value.toFixed(1)) : Math.round(value));
const BYTES = { title: "Bytes", text: perSecond((value) => bytes(Math.round(value))), unit: "bytes", least: 100, series: { bytes_in_per_s: "in", bytes_out_per_s: "out" } };
const REQUESTS = { title: "Requests", text: perSecond(short), unit: null, least: 10, series: { requests_per_s: "requests" } };
const RECORDS = { text: short, unit: null, least: 10 };
const TIME = { text: duration, unit: "ms", least: 1_000 };

const GRAPHS = {
  cluster: [
    BYTES,
    REQUESTS,
    { title: "Partitions in trouble", text: short, unit: null, least: 10, series: { under_replicated: "under-replicated", leaderless: "without a leader" } },
    { ...RECORDS, title: "Group farthest behind: records", series: { lag_records_max: "lag" } },
    { ...TIME, title: "Group farthest behind: time", series: { lag_ms_max: "lag" } },
  ],
  broker: [
    BYTES,
    REQUESTS,
    { title: "Connections", text: short, unit: null, least: 10, series: { connections: "connections" } },
    { title: "Disk", text: bytes, unit: "bytes", least: 1_024, series: { disk_used_bytes: "used", disk_free_bytes: "free" } },
  ],
  topic: [BYTES, { title: "Data, one copy", text: bytes, unit: "bytes", least: 1_024, series: { size_bytes: "data" } }],
  group: [
    { ...RECORDS, title: "Lag in records", series: { lag_records: "lag" } },
    { ...TIME, title: "Lag in time", series: { lag_ms: "lag" } },
  ],
};

/** kind: of GRAPHS. name: tells this thing from others of its kind. answer: { body } or { failure }. width: in pixels,
 * that there is. */
export function hourOf(kind, name, { body, failure }, width) {
  if (failure) return h("p", { class: "empty" }, `${capital(failure.message)}.`);
  if (body.timestamps.length === 0) return h("p", { class: "empty" }, "The lines begin half a minute after a controller becomes active: the hour is kept by this one, since it is.");
  const times = body.timestamps.map((moment) => Date.parse(moment));
  const columns = Math.max(1, Math.floor((width + GAP) / (GRAPH_WIDTH_MIN + GAP)));
  const each = Math.floor((width - GAP * (columns - 1)) / columns);
  const drawn = GRAPHS[kind].map(({ series, ...about }) =>
    graph({ ...about, key: `${kind} ${name} ${about.title}`, lines: Object.entries(series).map(([field, line]) => ({ name: line, values: body.series[field] })), times, intervalMs: body.interval_ms, width: each }),
  );
  return h("div", { class: "graphs" }, drawn);
}
