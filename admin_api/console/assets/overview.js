// The first look: is it well, and if not, what is worst? Then the numbers that are compared from day to day.

import { h, s, show } from "./dom.js";
import { hrefOf } from "./route.js";
import { releaseOf } from "./upgrade.js";
import { bytes, capital, count, duration, plural, words } from "./format.js";

/** Of partitions, worst first; also the order of the bar. */
export const STATES = ["leaderless", "under_min_isr", "recovering", "under_replicated", "creating", "online"];

export function showClusters(node, clusters, chosen) {
  show(
    node,
    clusters.length < 2
      ? []
      : h(
          "ul",
          {},
          clusters.map((cluster) =>
            h(
              "li",
              {},
              h(
                "a",
                { href: hrefOf(cluster.name), "aria-current": cluster.name === chosen ? "page" : null },
                h("span", { class: `dot ${cluster.health}`, "aria-hidden": "true" }),
                cluster.name,
                h("span", { class: "unseen" }, ` (${cluster.health})`),
              ),
            ),
          ),
        ),
  );
}

/** { level, line, detail }: one sentence on a cluster. level: ok, unknown, degraded, critical or empty. alarms: the
 * answer, or its failure. source: "active", "standby", or "cut off" from ZooKeeper. */
export function verdictOn(cluster, replication, alarms, source) {
  const { brokers } = cluster;
  const { states } = replication;
  const down = brokers.fenced;
  const also = down > 0 ? ` ${capital(plural(down, "broker"))} ${down === 1 ? "is" : "are"} down.` : "";
  const members = brokers.active + brokers.fenced + brokers.shutting_down;
  if (source === "cut off") return { level: "degraded", line: "ZooKeeper can't be reached.", detail: "This is the last that the controller has read. Brokers keep serving under the leaders they have; nothing is decided." };
  if (members === 0) {
    const waiting = brokers.waiting > 0 ? `${plural(brokers.waiting, "broker")} registered and waiting to be added.` : "";
    return { level: "empty", line: "No brokers yet.", detail: `${waiting} Add them with POST /clusters/${cluster.name}/brokers.`.trim() };
  }
  if (states.leaderless > 0) {
    const one = states.leaderless === 1;
    return {
      level: "critical",
      line: `${capital(plural(states.leaderless, "partition"))} ${one ? "has" : "have"} no leader.`,
      detail: `${one ? "It" : "They"} can be neither read nor written until a replica is back that holds every committed record.${also}`,
    };
  }
  if (states.under_min_isr > 0) {
    const one = states.under_min_isr === 1;
    return {
      level: "critical",
      line: `${capital(plural(states.under_min_isr, "partition"))} ${one ? "refuses" : "refuse"} acks=all.`,
      detail: `Fewer replicas are in sync than min.insync.replicas asks for. Reading continues.${also}`,
    };
  }
  const expired = alarms.body?.counts.certificate_expired ?? 0;
  if (expired > 0) return { level: "critical", line: `${capital(plural(expired, "certificate"))} ${expired === 1 ? "has" : "have"} ended.`, detail: `New connections fail there. The alarms name the processes and the remedy.${also}` };
  if (states.recovering + states.under_replicated > 0) {
    const many = states.recovering + states.under_replicated;
    return {
      level: "degraded",
      line: `${capital(plural(many, "partition"))} ${many === 1 ? "lacks" : "lack"} a replica in sync.`,
      detail: `Reading and writing continue.${also}`,
    };
  }
  if (down > 0) return { level: "degraded", line: `${capital(plural(down, "broker"))} ${down === 1 ? "is" : "are"} down.`, detail: "Every partition has all its replicas in sync." };
  if (source === "standby") return { level: "unknown", line: "Nothing wrong that a standby can see.", detail: "This copy of the metadata has a leader and every replica in sync for each partition. Only the active controller hears of alarms and lag." };
  const raised = Object.entries(alarms.body?.counts ?? {});
  if (raised.length > 0) {
    const sum = raised.reduce((all, [, number]) => all + number, 0);
    return { level: "degraded", line: `${capital(plural(sum, "alarm"))} ${sum === 1 ? "is" : "are"} up.`, detail: `${capital(raised.map(([code, number]) => `${words(code)}: ${count(number)}`).join(", "))}.` };
  }
  if (alarms.failure) return { level: "unknown", line: "Alarms are not known.", detail: `${capital(alarms.failure.message)}.` };
  return { level: "ok", ...calm(cluster, replication) };
}

/** { line, detail } of a cluster without trouble. */
function calm(cluster, { states, brokers }) {
  const { total } = cluster.partitions;
  if (total === 0) return { line: "Ready, and empty.", detail: "No topics yet. Create one with POST /topics." };
  const who = total === 1 ? "The one partition has" : `All ${count(total)} partitions have`;
  if (states.creating > 0) return { line: `${capital(plural(states.creating, "partition"))} ${states.creating === 1 ? "is" : "are"} being created.`, detail: "Their leaders have not reported a log yet." };
  const copied = brokers.reduce((sum, broker) => sum + broker.out_of_sync, 0);
  if (copied > 0) return { line: `${capital(plural(copied, "replica"))} ${copied === 1 ? "is" : "are"} being copied.`, detail: `${who} a leader and as many replicas in sync as asked for; those on their way are not in sync yet.` };
  return { line: "All is well.", detail: `${who} a leader and every replica in sync.` };
}

/** [value, note, level]: of the follower that is farthest behind, in records and time. */
function farthestFollower({ brokers }, source) {
  if (source === "standby") return ["unknown", "only the active controller hears of lag", null];
  const unknown = brokers.reduce((sum, broker) => sum + broker.unknown, 0);
  const missing = unknown > 0 ? `; ${plural(unknown, "follower")} unknown` : "";
  const known = brokers.filter((broker) => broker.followed > 0);
  if (known.length === 0) return unknown > 0 ? ["unknown", `no leader has reported ${plural(unknown, "follower")}`, null] : ["–", "no followers", null];
  const records = Math.max(...known.map((broker) => broker.lag_records_max));
  const timeless = known.filter((broker) => broker.lag_ms_max === null).map((broker) => broker.broker_id);
  const time = timeless.length > 0 ? `time unknown of broker ${timeless.slice(0, 5).join(", ")}${timeless.length > 5 ? ", …" : ""}` : `at most ${duration(Math.max(...known.map((broker) => broker.lag_ms_max)))} behind`;
  return [plural(records, "record"), `${time}${missing}`, unknown > 0 || timeless.length > 0 ? "degraded" : null];
}

/** [value, note, level]: what the worst loss of one broker would do. */
function ifLost(worst) {
  if (worst === null) return ["–", "no broker to lose", null];
  const { leaderless, recovering, stops_acks_all: stopped } = worst.partitions;
  const who = `worst: ${worst.lose.replace(":", " ")}`;
  if (leaderless + recovering > 0) return [count(leaderless + recovering), `${leaderless + recovering === 1 ? "partition goes" : "partitions go"} offline; ${who}`, "degraded"];
  if (stopped > 0) return [count(stopped), `${stopped === 1 ? "partition stops" : "partitions stop"} taking acks=all; ${who}`, "degraded"];
  return ["All continue", "reading and acks=all", null];
}

/** [value, note, level]: how much of what is most uneven the fullest broker carries. */
function evenness(skew) {
  const known = Object.values(skew ?? {}).filter((weight) => weight.max_over_mean !== null);
  if (known.length === 0) return ["–", "nothing to compare", null];
  const [most, ...others] = known.sort((a, b) => b.max_over_mean - a.max_over_mean);
  const note = [`${most.unit} on broker ${most.broker_id}`, ...others.map((weight) => `${weight.unit} ${weight.max_over_mean.toFixed(2)}`)];
  return [`${most.max_over_mean.toFixed(2)} of mean`, note.join("; "), null];
}

/** details: what only the answer about one cluster has; null while it is not known. */
export function showOverview(node, cluster, replication, details, alarms, upgrade, source) {
  const states = replication.states;
  const verdict = verdictOn(cluster, replication, alarms, source);
  const { brokers, partitions } = cluster;
  const members = brokers.active + brokers.fenced + brokers.shutting_down;
  const sizes = replication.brokers.filter((broker) => broker.bytes !== null);
  const size = sizes.length === 0 ? null : sizes.reduce((sum, broker) => sum + broker.bytes, 0);
  const membership = `${members === brokers.active ? "all active" : `active of ${members}`}${brokers.waiting > 0 ? `, ${brokers.waiting} waiting to be added` : ""}`;
  const figure = (name, value, note, level = null) =>
    h("div", { class: level }, h("dt", {}, name), h("dd", {}, h("b", {}, value), note ? h("span", {}, note) : null));
  show(
    node,
    h("p", { class: "name" }, cluster.name),
    h("h1", { id: "verdict", class: verdict.level }, h("span", { class: `dot ${verdict.level}`, "aria-hidden": "true" }), verdict.line),
    h("p", { class: "detail" }, verdict.detail),
    partitions.total > 0 ? bar(states, partitions.total) : null,
    h(
      "dl",
      { class: "figures" },
      figure("Brokers", count(brokers.active), membership, brokers.fenced > 0 ? "degraded" : null),
      figure("Topics", count(cluster.topics), null),
      figure("Partitions", count(partitions.total), `${count(partitions.leader_not_preferred)} not led by their first choice`),
      figure("Data", bytes(size), size === null ? "not reported" : "on all brokers"),
      figure("Fullest broker", ...evenness(details?.skew)),
      partitions.total > 0 ? figure("If a broker is lost", ...ifLost(details?.resilience?.broker ?? null)) : null,
      figure("Farthest follower", ...farthestFollower(replication, source)),
      figure("Release", ...releaseOf(upgrade, cluster.name)),
    ),
  );
}

/** How many partitions are in which state. What is rare must be seen: no part is narrower than 1.5 %. */
function bar(states, total) {
  const present = STATES.filter((state) => states[state] > 0);
  const least = 1.5;
  const widths = present.map((state) => Math.max(least, (100 * states[state]) / total));
  const sum = widths.reduce((a, b) => a + b, 0);
  let x = 0;
  const parts = present.map((state, index) => {
    const width = (100 * widths[index]) / sum;
    const part = s("rect", { class: `state-${state}`, x: x.toFixed(3), y: 0, width: width.toFixed(3), height: 6 });
    x += width;
    return part;
  });
  return h(
    "figure",
    { class: "bar" },
    s("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, parts),
    h(
      "figcaption",
      {},
      h("ul", {}, present.map((state) => h("li", {}, h("span", { class: `key state-${state}`, "aria-hidden": "true" }), `${count(states[state])} ${words(state)}`))),
    ),
  );
}
