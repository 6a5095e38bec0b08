// Topics: the list, and one topic with its readers, partitions and settings.

import { actionButton } from "./actions.js";
import { ask, everyOne, get } from "./api.js";
import { changeSetting, createTopic, moveLeadersBack } from "./changes.js";
import { ago, h, show } from "./dom.js";
import { bytes, count, duration, plural, rate } from "./format.js";
import { hourOf } from "./hour.js";
import { listView } from "./lists.js";
import { isGuarded, lock, ownersTools, restoreTopic } from "./owning.js";
import { readersOf } from "./readers.js";
import { hrefOf } from "./route.js";
import { changeList, changesOf, settingText } from "./settings.js";
import { badge, replicas, table } from "./tables.js";

const PARTITIONS_SHOWN = 500;
const MISSING_SHOWN = 10;
/** Offsets of the round before, by topic id and partition: a rate is what came between two rounds. */
const before = new Map();

export const topicsView = listView({
  noun: "topics",
  title: "Topics",
  order: "name",
  favourite: "topic",
  nameOf: (topic) => topic.name,
  empty: "No topics yet.",
  tools: (context) => [actionButton("Create a topic", () => createTopic(context), context), actionButton("Restore a deleted topic", () => restoreTopic(context), context)],
  columns: [
    { text: "Topic", sort: "name", cell: (topic, { cluster }) => [h("a", { href: hrefOf(cluster.name, "topics", topic.name) }, topic.name), isGuarded(topic) ? lock() : null] },
    { text: "State", cell: stateOf },
    { text: "Partitions", kind: "number", sort: "-partitions", cell: (topic) => count(topic.partitions) },
    { text: "Data", kind: "number", sort: "-size", cell: (topic) => bytes(topic.size_bytes) },
    { text: "In", kind: "number", sort: "-bytes_in", cell: (topic) => rate(topic.bytes_in_per_s) },
    { text: "Out", kind: "number", sort: "-bytes_out", cell: (topic) => rate(topic.bytes_out_per_s) },
    { text: "Groups", kind: "number", sort: "-groups", cell: (topic) => count(topic.groups) },
    { text: "Replicas", kind: "number", cell: (topic) => [count(topic.replication_factor), h("span", { class: "quiet" }, `at least ${count(topic.min_insync_replicas)} in sync`)] },
    { text: "Warnings", kind: "why", cell: (topic) => (topic.warnings.length === 0 ? null : h("ul", { class: "reasons" }, topic.warnings.map((warning) => h("li", {}, warning)))) },
  ],
});

/** On the first page: what clients ask for and is not there. Nothing where there is nothing, or it is not known. */
export function showMissing(section, answer, cluster) {
  const items = [...(answer.body?.items ?? [])].sort((one, other) => other.asked - one.asked);
  section.hidden = items.length === 0;
  const shown = items.slice(0, MISSING_SHOWN);
  show(
    section.querySelector(".body"),
    table("Topics that are not there", [["Topic"], ["Asked for", "number"], ["By", "why"], ["At"]], shown.map(missingRow)),
    h(
      "p",
      { class: "empty" },
      items.length > shown.length ? `${plural(items.length - shown.length, "more name")}. ` : null,
      h("a", { href: hrefOf(cluster, "topics") }, "Create them"),
      ", or set auto.create.topics.enable: then a topic is made when it is first used. Or the client has the wrong name.",
    ),
  );
}

function missingRow({ topic, asked, since, clients, nodes }) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, topic),
    h("td", { class: "number" }, h("b", {}, count(asked)), h("span", { class: "quiet" }, "first ", ago(since))),
    h("td", { class: "why" }, h("ul", { class: "reasons" }, clients.map((client) => h("li", {}, `${client.client_id || "no client id"}, ${client.software}`)))),
    h("td", {}, nodes.join(", ")),
  );
}

/** The worst that is true of any partition. */
function stateOf(topic) {
  const offline = topic.partitions - topic.online_partitions;
  if (topic.state !== "online") return badge("draining", topic.state);
  if (offline > 0) return badge("leaderless", `${count(offline)} offline`);
  if (topic.under_min_isr_partitions > 0) return badge("under_min_isr", `${count(topic.under_min_isr_partitions)} refuse acks=all`);
  if (topic.under_replicated_partitions > 0) return badge("under_replicated", `${count(topic.under_replicated_partitions)} under-replicated`);
  return badge("active", "online");
}

export const topicView = {
  title: (route) => route.id,
  tools: (context) => [h("a", { class: "go", href: hrefOf(context.cluster.name, "records", context.route.id) }, "Records"), actionButton("Move leaders back", () => moveLeadersBack(context, context.route.id), context), ownersTools(context)],
  async ask({ path, route }) {
    const own = `${path}/topics/${encodeURIComponent(route.id)}`;
    const [topic, partitions, configs, changes, hour] = await Promise.all([get(own), everyOne(`${own}/partitions`), everyOne(`${own}/configs`), ask(changesOf(path, { topic: route.id })), ask(`${path}/history/topics/${encodeURIComponent(route.id)}`)]);
    return { topic: topic.body, partitions: partitions.items, configs: configs.items, changes, hour, rates: ratesOf(partitions.items, Date.now()) };
  },
  draw(body, { topic, partitions, configs, changes, hour, rates }, context) {
    const known = partitions.filter((item) => item.size_bytes !== null);
    const size = known.reduce((sum, item) => sum + item.size_bytes, 0);
    const records = known.reduce((sum, item) => sum + item.log_end_offset - item.log_start_offset, 0);
    const written = [...rates.values()].reduce((sum, value) => sum + value, 0);
    const missing = partitions.length - known.length;
    const partly = missing > 0 ? `; ${plural(missing, "partition")} unknown` : "";
    show(
      body,
      topic.warnings.length === 0 ? null : h("ul", { class: "blocked", "aria-label": "Warnings" }, topic.warnings.map((warning) => h("li", {}, warning))),
      figures([
        ["State", stateOf(topic)],
        ["Partitions", count(topic.partitions)],
        ["Replicas of each", `${count(topic.replication_factor)}, ${count(topic.min_insync_replicas)} must be in sync`],
        ["Loss of brokers that acks=all outlives", count(topic.tolerates_broker_losses)],
        ["Data, one copy", known.length === 0 ? "unknown" : `${bytes(size)}${partly}`],
        ["Offsets kept", known.length === 0 ? "unknown" : `${count(records)}${partly}`],
        ["Deletion", isGuarded(topic) ? [lock(), "guarded: deletion.protected"] : "not guarded"],
        ["Written now", rates.size === 0 ? "unknown" : `${count(Math.round(written))} records/s`],
        ["In, last minute", rate(topic.bytes_in_per_s)],
        ["Out, last minute", rate(topic.bytes_out_per_s)],
      ]),
      h("h2", {}, "The last hour"),
      hourOf("topic", `${context.cluster.name} ${topic.name}`, hour, body.clientWidth),
      h("h2", {}, "Groups that read it"),
      readersOf(topic, context.cluster.name),
      h("h2", {}, "Partitions"),
      table("Partitions", [["Partition"], ["State"], ["Replicas"], ["Offsets", "number"], ["Data", "number"], ["Records/s", "number"], ["Behind", "number"]], partitions.slice(0, PARTITIONS_SHOWN).map((item) => partitionRow(item, rates))),
      partitions.length > PARTITIONS_SHOWN ? h("p", { class: "empty" }, `The first ${PARTITIONS_SHOWN} of ${count(partitions.length)} are shown.`) : null,
      h("h2", {}, "Settings"),
      settings(configs, `${context.path}/topics/${encodeURIComponent(topic.name)}`, context),
      h("h2", {}, "Changes of settings"),
      changeList(changes, context),
    );
  },
};

/** Records a second of each partition whose leader has told of its log twice. */
function ratesOf(partitions, now) {
  const rates = new Map();
  for (const item of partitions) {
    if (item.log_end_offset === null) continue;
    const key = `${item.topic_id} ${item.partition}`;
    const last = before.get(key);
    if (last && now > last.at && item.log_end_offset >= last.offset) rates.set(item.partition, ((item.log_end_offset - last.offset) * 1_000) / (now - last.at));
    before.set(key, { at: now, offset: item.log_end_offset });
  }
  return rates;
}

function partitionRow(item, rates) {
  const known = item.followers.filter((follower) => follower.lag_records >= 0);
  const farthest = known.sort((a, b) => b.lag_records - a.lag_records)[0];
  const unknown = item.replicas.filter((id) => id !== item.leader && !known.some((follower) => follower.broker_id === id)).length;
  const written = rates.get(item.partition);
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, String(item.partition)),
    h("td", {}, badge(item.state), item.why ? h("span", { class: "quiet" }, item.why) : null),
    h("td", {}, replicas(item)),
    h("td", { class: "number" }, item.log_end_offset === null ? "unknown" : `${count(item.log_start_offset)} – ${count(item.log_end_offset)}`),
    h("td", { class: "number" }, item.size_bytes === null ? "unknown" : bytes(item.size_bytes)),
    h("td", { class: "number" }, written === undefined ? "unknown" : count(Math.round(written))),
    h(
      "td",
      { class: "number" },
      farthest ? [plural(farthest.lag_records, "record"), h("span", { class: "quiet" }, farthest.lag_ms < 0 ? "time unknown" : duration(farthest.lag_ms))] : unknown > 0 ? null : "–",
      unknown > 0 ? h("span", { class: "quiet" }, `${plural(unknown, "replica")} unknown`) : null,
    ),
  );
}

/** [name, value] pairs. */
export function figures(pairs) {
  return h("dl", { class: "facts" }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** A table of settings: those that were set come first. holder: the address of what they belong to. */
export function settings(configs, holder, context) {
  const changeButton = (item) => {
    const button = actionButton("Change", () => changeSetting(holder, item), context);
    button.dataset.setting = item.name;
    button.setAttribute("aria-label", `Change ${item.name}`);
    return button;
  };
  const set = (item) => (item.source === "default" ? 1 : 0);
  const ordered = [...configs].sort((a, b) => set(a) - set(b) || (a.name < b.name ? -1 : 1));
  return table(
    "Settings",
    [["Setting"], ["Value"], ["From"], ["Default"], [""]],
    ordered.map((item) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, item.name),
        h("td", { class: "value" }, settingText(item.name, item.value)),
        h("td", {}, badge(item.source === "default" ? "plain" : "cordoned", item.source)),
        h("td", { class: "value" }, item.default ?? "none"),
        h("td", {}, item.is_read_only ? null : changeButton(item)),
      ),
    ),
  );
}
