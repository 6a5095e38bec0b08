// Brokers: the list, and one broker with its notes and settings.

import { actionButton } from "./actions.js";
import { ask, everyOne, get } from "./api.js";
import { addBroker, demoteBroker, drainBroker, moveLeadersBack, returnBroker } from "./changes.js";
import { ago, h, show } from "./dom.js";
import { bytes, count, rate, words } from "./format.js";
import { hourOf } from "./hour.js";
import { listView } from "./lists.js";
import { changeList, changesOf } from "./settings.js";
import { badge, behindOf, brokerName, brokerState, carriedBy, marks, measured, requestsOf } from "./tables.js";
import { figures, settings } from "./topics.js";

export const brokersView = listView({
  noun: "brokers",
  title: "Brokers",
  order: "broker_id",
  nameOf: (broker) => String(broker.broker_id),
  empty: "None has registered. Start one with this cluster's name, and add it.",
  tools: (context) => [actionButton("Add a broker", () => addBroker(context), context), actionButton("Move leaders back", () => moveLeadersBack(context), context)],
  beside: async ({ path }) => (await get(`${path}/replication`)).body,
  columns: [
    { text: "Broker", sort: "broker_id", cell: (broker, { cluster }) => brokerName(broker, cluster.name) },
    { text: "State", cell: brokerState },
    { text: "Disk used", kind: "number", sort: "-disk_used", cell: diskUsed },
    { text: "Free", kind: "number", sort: "disk_free", cell: (broker) => bytes(broker.disk_free_bytes) },
    { text: "In", kind: "number", sort: "-bytes_in", cell: (broker) => rate(broker.bytes_in_per_s) },
    { text: "Out", kind: "number", sort: "-bytes_out", cell: (broker) => rate(broker.bytes_out_per_s) },
    { text: "Requests/s", kind: "number", cell: requestsOf },
    { text: "Leaders", kind: "number", sort: "-leaders", cell: (broker) => count(broker.leaders) },
    { text: "Replicas", kind: "number", sort: "-replicas", cell: (broker) => count(broker.replicas) },
    { text: "Out of sync", kind: "number", cell: (broker, { beside }) => count(carriedBy(broker, beside)?.out_of_sync) },
    { text: "Behind", kind: "number", cell: (broker, { beside }) => behindOf(broker, carriedBy(broker, beside)) },
  ],
});

function diskUsed({ disk_free_bytes: free, disk_total_bytes: total }) {
  if (free === null || !total) return "unknown";
  const part = 1 - free / total;
  return measured(`${Math.round(100 * part)} % of ${bytes(total)}`, part);
}

export const brokerView = {
  title: (route) => `Broker ${route.id}`,
  tools(context) {
    const { id } = context.route;
    const own = `${context.path}/brokers/${encodeURIComponent(id)}`;
    const button = (text, action) => actionButton(text, () => action(own, id), context);
    return [button("Drain", drainBroker), button("Demote", demoteBroker), button("Take back", returnBroker)];
  },
  async ask({ path, route }) {
    const own = `${path}/brokers/${encodeURIComponent(route.id)}`;
    const [broker, replication, configs, changes, hour] = await Promise.all([get(own), get(`${path}/replication`), everyOne(`${own}/configs`), ask(changesOf(path, { broker: route.id })), ask(`${path}/history/brokers/${encodeURIComponent(route.id)}`)]);
    const carried = carriedBy(broker.body, replication.body);
    return { broker: broker.body, carried, configs: configs.items, changes, hour };
  },
  draw(body, { broker, carried, configs, changes, hour }, context) {
    const labels = Object.entries(broker.labels).map(([name, value]) => `${name}: ${value}`);
    show(
      body,
      figures([
        ["State", [badge(broker.state), marks(broker).map((mark) => badge(mark))]],
        ["Endpoint", broker.endpoint],
        ...broker.workers.map((worker) => [`Worker ${worker.worker}`, [badge(worker.state), `id ${worker.broker_id}, ${worker.endpoint}, leads ${count(worker.leaders)} of ${count(worker.replicas)} replicas`]]),
        ["Rack", broker.rack ?? "none"],
        ["Leads", `${count(broker.leaders)} of ${count(broker.replicas)} replicas; first choice of ${carried ? count(carried.preferred) : "unknown"}`],
        ["Data", carried?.bytes === undefined || carried.bytes === null ? "unknown" : bytes(carried.bytes)],
        ["Behind", behindOf(broker, carried)],
        ["Out of sync", carried ? count(carried.out_of_sync) : "unknown"],
        ["Disks", broker.offline_log_dirs.length > 0 ? `${count(broker.log_dirs.length)} usable, ${count(broker.offline_log_dirs.length)} offline` : `${count(broker.log_dirs.length)} usable`],
        ["Free", broker.disk_free_bytes === null ? "unknown" : `${bytes(broker.disk_free_bytes)} of ${bytes(broker.disk_total_bytes)}`],
        ["Connections", broker.connections === null ? "unknown" : count(broker.connections)],
        ["Requests", broker.requests_per_s === null ? "unknown" : `${count(broker.requests_per_s)}/s`],
        ["In and out, last minute", `${rate(broker.bytes_in_per_s)} in, ${rate(broker.bytes_out_per_s)} out`],
        ["Run", `epoch ${broker.broker_epoch}, version ${broker.version}, before it: ${words(broker.last_shutdown)}`],
        ["Registered", ago(broker.registered_at)],
        ["Notes", labels.length === 0 ? "none" : labels.join(", ")],
      ]),
      h("h2", {}, "The last hour"),
      hourOf("broker", `${context.cluster.name} ${broker.broker_id}`, hour, body.clientWidth),
      h("h2", {}, "Settings"),
      settings(configs, `${context.path}/brokers/${broker.broker_id}`, context),
      h("h2", {}, "Changes of settings"),
      changeList(changes, context),
    );
  },
};
