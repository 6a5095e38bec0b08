// What is wrong, what is to be looked at first, and who carries what.

import { ago, h, s, show } from "./dom.js";
import { bytes, capital, count, duration, plural, words } from "./format.js";
import { hrefOf } from "./route.js";

/** More partitions than this with one cause are one row. */
const ALIKE_SHOWN = 3;
/** Of one code. */
const ALARMS_LISTED = 50;

export function badge(state, text = words(state)) {
  return h("span", { class: `badge state-${state}` }, text);
}

/** head: [text, class, order] of each column; order: { href, state } of one that can be sorted by. Roles are spelt out because a phone shows each row as a block, and a browser
 * forgets that such a thing is a table. */
export function table(label, head, rows) {
  for (const row of rows) {
    row.setAttribute("role", "row");
    [...row.children].forEach((cell, index) => {
      cell.setAttribute("role", cell.localName === "th" ? "rowheader" : "cell");
      cell.dataset.column = head[index][0];
    });
  }
  const columns = head.map(([text, kind, order]) => h("th", { scope: "col", role: "columnheader", class: kind, "aria-sort": order?.state }, order ? h("a", { class: "sort", href: order.href }, text) : text));
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": label, tabindex: "0" },
    h("table", { role: "table" }, h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns)), h("tbody", { role: "rowgroup" }, rows)),
  );
}

export function showAlarms(section, answer, cluster) {
  const body = section.querySelector(".body");
  if (answer.failure) {
    section.hidden = false;
    show(body, h("p", { class: "empty" }, `${capital(answer.failure.message)}.`));
    return;
  }
  const { items, counts } = answer.body;
  section.hidden = items.length === 0;
  show(body, h("ul", { class: "alarms" }, Object.entries(counts).map(([code, number]) => alarmGroup(code, number, items.filter((alarm) => alarm.code === code), cluster))));
}

/** All alarms of one code. items: those of them that were asked for. */
function alarmGroup(code, number, items, cluster) {
  const [first] = items;
  if (number === 1 && first) return h("li", {}, h("b", {}, capital(words(code))), h("span", { class: "about" }, alarmedOf(first, cluster)), h("p", {}, first.detail), whatFollows(first), silenceOf(first));
  const shown = items.slice(0, ALARMS_LISTED);
  return h(
    "li",
    {},
    h("b", {}, `${capital(words(code))}: ${count(number)}`),
    first ? h("p", {}, h("span", {}, alarmedOf(first, cluster), ": "), first.detail) : h("p", {}, "less severe than those that are shown"),
    first ? whatFollows(first) : null,
    first ? silenceOf(first) : null,
    shown.length > 1
      ? h(
          "details",
          { "data-key": `alarms-${code}` },
          h("summary", {}, number > shown.length ? `The first ${count(shown.length)}` : "All"),
          h("ul", { class: "each" }, shown.map((alarm) => h("li", {}, h("b", {}, alarmedOf(alarm, cluster)), ` ${alarm.detail}`, silenceOf(alarm)))),
        )
      : null,
  );
}

/** Alarms that are folded into this one, by kind. */
function whatFollows(alarm) {
  const found = Object.entries(alarm.follows);
  return found.length === 0 ? null : h("p", { class: "follows" }, `From it follow: ${found.map(([code, number]) => `${words(code)}: ${count(number)}`).join(", ")}.`);
}

/** Why webhooks are told nothing of the alarm, and until when. */
function silenceOf({ silenced }) {
  return silenced ? h("p", { class: "follows" }, `Silenced until ${silenced.until.slice(0, 16).replace("T", " ")} UTC by ${silenced.actor}: ${silenced.reason}`) : null;
}

/** What an alarm is about, with links there. */
function alarmedOf(alarm, cluster) {
  const about = [
    alarm.topic !== null ? h("a", { href: hrefOf(cluster, "topics", alarm.topic) }, `${alarm.topic}-${alarm.partition}`) : null,
    alarm.broker_id !== null ? h("a", { href: hrefOf(cluster, "brokers", alarm.broker_id) }, `broker ${alarm.broker_id}`) : null,
    alarm.group_id !== null ? h("a", { href: hrefOf(cluster, "groups", alarm.group_id) }, `group ${alarm.group_id}`) : null,
    alarm.transactional_id !== null ? h("a", { href: hrefOf(cluster, "transactions", alarm.transactional_id) }, `transaction ${alarm.transactional_id}`) : null,
    alarm.producer_id !== null ? h("a", { href: hrefOf(cluster, "transactions") }, `producer ${alarm.producer_id}`) : null,
  ].filter((part) => part !== null);
  return about.length === 0 ? "the cluster" : about.flatMap((part, index) => (index > 0 ? [", ", part] : [part]));
}

/** brokers: by id, to say why a replica is missing. */
export function showPartitions(section, answer, states, brokers, cluster) {
  const body = section.querySelector(".body");
  const troubled = Object.entries(states).reduce((sum, [state, number]) => sum + (state === "online" ? 0 : number), 0);
  if (troubled === 0) {
    show(body, h("p", { class: "empty" }, states.online === 0 ? "There are none." : "None needs attention: every one has a leader and all its replicas in sync."));
    return;
  }
  if (!answer || answer.failure) {
    show(body, h("p", { class: "empty" }, answer ? `${capital(answer.failure.message)}.` : "Loading."));
    return;
  }
  const items = answer.body.items.filter((item) => item.state !== "online");
  show(
    body,
    table(
      "Partitions that need attention",
      [["Partition"], ["State"], ["Replicas"], ["Behind", "number"], ["Why", "why"]],
      alike(items, brokers).map((group) => row(group, cluster)),
    ),
    items.length < troubled ? h("p", { class: "empty" }, `The ${items.length} worst of ${count(troubled)} are shown.`) : null,
  );
}

/** One cause, one row: partitions of one state and with the same reasons, in the order of the first of each. */
function alike(items, brokers) {
  const groups = new Map();
  for (const item of items) {
    const lines = reasons(item, brokers);
    const key = JSON.stringify([item.state, lines]);
    if (!groups.has(key)) groups.set(key, { state: item.state, lines, items: [] });
    groups.get(key).items.push(item);
  }
  return [...groups.values()].flatMap((group) => (group.items.length > ALIKE_SHOWN ? [group] : group.items.map((item) => ({ ...group, items: [item] }))));
}

function row({ state, lines, items }, cluster) {
  const [item] = items;
  const isOne = items.length === 1;
  const last = items.map((other) => other.last_change).filter((change) => change !== null).sort((a, b) => Date.parse(b.at) - Date.parse(a.at))[0];
  const furthest = Math.max(...items.map(behind));
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, isOne ? h("a", { href: hrefOf(cluster, "topics", item.topic) }, name(item)) : plural(items.length, "partition")),
    h("td", {}, badge(state)),
    h("td", {}, isOne ? replicas(item) : null),
    h("td", { class: "number" }, furthest < 0 ? "–" : `${isOne || furthest === 0 ? "" : "up to "}${count(furthest)}`),
    h(
      "td",
      { class: "why" },
      h("ul", { class: "reasons" }, lines.map((line) => h("li", {}, line))),
      last ? h("p", { class: "quiet" }, `${words(last.cause)}, `, ago(last.at)) : null,
      isOne ? null : h("details", { "data-key": `alike-${state}-${lines}` }, h("summary", {}, "Which"), h("ul", { class: "members" }, items.map((other) => h("li", {}, name(other), replicas(other))))),
    ),
  );
}

function name(item) {
  return `${item.topic}-${item.partition}`;
}

/** Brokers in order of preference: the leader filled, those in sync outlined, those that are not struck through. */
export function replicas(item) {
  return h(
    "ul",
    { class: "replicas" },
    item.replicas.map((id) => {
      const role = id === item.leader ? "leader" : item.isr.includes(id) ? "in sync" : item.elr.includes(id) ? "eligible" : "not in sync";
      return h("li", { class: role.replaceAll(" ", "-"), title: `broker ${id}: ${role}` }, count(id), h("span", { class: "unseen" }, ` ${role}`));
    }),
  );
}

/** Records that the farthest follower out of sync lacks, or, with all in sync, the farthest; -1: not known. */
function behind(item) {
  const missing = item.followers.filter((follower) => !follower.in_sync);
  return Math.max(-1, ...(missing.length > 0 ? missing : item.followers).map((follower) => follower.lag_records));
}

function reasons(item, brokers) {
  if (item.why) return item.why.split("; ");
  const lines = item.replicas
    .filter((id) => !item.isr.includes(id))
    .map((id) => {
      const broker = brokers.get(id);
      if (!broker) return `broker ${id} is not registered`;
      if (broker.state === "fenced") return `broker ${id} is down`;
      if (broker.state === "shutting_down") return `broker ${id} is shutting down`;
      const follower = item.followers.find((other) => other.broker_id === id);
      if (item.adding_replicas.includes(id)) return `broker ${id} is being added`;
      return follower && follower.lag_records >= 0 ? `broker ${id} is catching up` : `broker ${id} has not fetched yet`;
    });
  if (item.state === "recovering") lines.unshift(`broker ${item.leader} was elected uncleanly and has not confirmed its log`);
  return lines;
}

export function showBrokers(section, list, replication, cluster) {
  show(section.querySelector(".body"), brokerTable(list, replication, cluster));
}

/** cluster: its name, for the links. */
export function brokerTable(list, replication, cluster) {
  if (list.length === 0) return h("p", { class: "empty" }, "None has registered. Start one with this cluster's name, and add it.");
  const carried = new Map(list.map((broker) => [broker.broker_id, carriedBy(broker, replication)]));
  const most = (of) => Math.max(1, ...list.map((broker) => of(broker) ?? 0));
  const size = (broker) => carried.get(broker.broker_id)?.bytes ?? null;
  const leadersMax = most((broker) => broker.leaders);
  const replicasMax = most((broker) => broker.replicas);
  const bytesMax = most(size);
  return table(
    "Brokers",
    [["Broker"], ["State"], ["Leaders", "number"], ["Replicas", "number"], ["Data", "number"], ["Requests/s", "number"], ["Out of sync", "number"], ["Behind", "number"]],
    list.map((broker) => {
      const found = carried.get(broker.broker_id);
      return h(
        "tr",
        {},
        h("th", { scope: "row" }, brokerName(broker, cluster)),
        h("td", {}, brokerState(broker)),
        h("td", { class: "number" }, measured(count(broker.leaders), broker.leaders / leadersMax)),
        h("td", { class: "number" }, measured(count(broker.replicas), broker.replicas / replicasMax)),
        h("td", { class: "number" }, measured(bytes(size(broker)), (size(broker) ?? 0) / bytesMax)),
        h("td", { class: "number" }, requestsOf(broker)),
        h("td", { class: `number ${found?.out_of_sync > 0 ? "degraded" : ""}` }, count(found?.out_of_sync)),
        h("td", { class: "number", title: found?.farthest_topic ? `farthest: ${found.farthest_topic}-${found.farthest_partition}` : null }, behindOf(broker, found)),
      );
    }),
  );
}

export function brokerName(broker, cluster) {
  return [h("b", {}, h("a", { href: hrefOf(cluster, "brokers", broker.broker_id) }, String(broker.broker_id))), h("span", { class: "quiet" }, broker.endpoint, broker.rack ? ` · ${broker.rack}` : "", broker.version ? ` · ${broker.version}` : "", broker.workers.length > 0 ? ` · ${plural(broker.workers.length, "worker")}` : "")];
}

/** Requests a second, and the connections that they come from. */
export function requestsOf({ requests_per_s: requests, connections }) {
  return [requests === null ? "unknown" : count(requests), connections === null ? null : h("span", { class: "quiet" }, plural(connections, "connection"))];
}

export function brokerState(broker) {
  return [badge(broker.state), marks(broker).map((mark) => badge(mark)), broker.offline_log_dirs.length > 0 ? badge("fenced", plural(broker.offline_log_dirs.length, "disk") + " offline") : null];
}

/** What replication says of a broker, of all its workers together. */
export function carriedBy(broker, replication) {
  const ids = broker.workers.length > 0 ? broker.workers.map((worker) => worker.broker_id) : [broker.broker_id];
  const found = replication.brokers.filter((one) => ids.includes(one.broker_id));
  if (found.length < 2) return found[0];
  const sum = (name) => found.reduce((total, one) => total + (one[name] ?? 0), 0);
  const longest = (one) => (one.followed === 0 ? -1 : (one.lag_ms_max ?? Infinity));
  const farthest = found.reduce((most, one) => (longest(one) > longest(most) ? one : most));
  const sums = ["bytes", "followed", "unknown", "out_of_sync", "preferred"].map((name) => [name, sum(name)]);
  return { ...farthest, ...Object.fromEntries(sums), lag_records_max: Math.max(...found.map((one) => one.lag_records_max)) };
}

/** What an operator has asked of a broker. */
export function marks(broker) {
  return ["cordoned", broker.drained ? "drained" : "draining", "demoted"].filter((mark) => broker[mark]);
}

/** Records, and the time in which they were not fetched. What is not known is not shown as 0. */
export function behindOf(broker, found) {
  const quiet = (text) => h("span", { class: "quiet" }, text);
  if (!found || found.followed + found.unknown === 0) return ["–"];
  const unknown = found.unknown > 0 ? quiet(`${plural(found.unknown, "replica")} unknown`) : null;
  const isDown = broker.state === "fenced" ? "broker is down" : null;
  if (found.followed === 0) return ["unknown", isDown ? quiet(isDown) : null];
  return [plural(found.lag_records_max, "record"), quiet(isDown ?? (found.lag_ms_max === null ? "time unknown" : duration(found.lag_ms_max))), unknown];
}

/** A number over a bar: how much it is of the most that any has, or of the whole. */
export function measured(text, part) {
  return [
    text,
    s(
      "svg",
      { class: "meter", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
      s("rect", { class: "track", x: 0, y: 0, width: 100, height: 4 }),
      s("rect", { class: "level", x: 0, y: 0, width: (100 * part).toFixed(2), height: 4 }),
    ),
  ];
}
