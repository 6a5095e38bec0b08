// Consumer groups: the list, and one group with its members and how far it has read.

import { actionButton } from "./actions.js";
import { ask } from "./api.js";
import { deleteGroup, resetOffsets } from "./changes.js";
import { ago, h, show } from "./dom.js";
import { capital, count, duration, plural } from "./format.js";
import { hourOf } from "./hour.js";
import { listView, narrow } from "./lists.js";
import { behind, behindInTime, untilGone } from "./readers.js";
import { hrefOf } from "./route.js";
import { badge, table } from "./tables.js";
import { figures } from "./topics.js";

const ROWS_SHOWN = 500;
const STATES = ["stable", "empty", "preparing_rebalance", "completing_rebalance", "assigning", "reconciling"];

export const groupsView = listView({
  noun: "groups",
  title: "Groups",
  order: "-lag",
  favourite: "group",
  filters: ["state", "prefix"],
  nameOf: (group) => group.group_id,
  empty: "No groups yet. A consumer with a group.id makes one.",
  tools(context) {
    const state = h("select", { id: "filter-state" }, h("option", { value: "" }, "any"), STATES.map((name) => h("option", { value: name }, name.replace("_", " "))));
    state.value = context.route.query.get("state") ?? "";
    state.addEventListener("change", () => narrow(context, { state: state.value }));
    return h("label", { class: "field" }, "State", state);
  },
  about: ({ unanswered }) => (unanswered.length === 0 ? null : h("ul", { class: "blocked", "aria-label": "Not answered" }, h("li", {}, "Groups are missing here, for not every coordinator answered:"), unanswered.map((text) => h("li", {}, text)))),
  told: (failure) => (isOfCoordinators(failure) ? Promise.resolve({ failure, says: unknown(failure) }) : Promise.reject(failure)),
  columns: [
    { text: "Group", sort: "group_id", cell: (group, { cluster }) => h("a", { href: hrefOf(cluster.name, "groups", group.group_id) }, group.group_id) },
    { text: "State", sort: "state", cell: stateOf },
    { text: "Members", kind: "number", sort: "-members", cell: (group) => count(group.members_total) },
    { text: "Records behind", kind: "number", sort: "-lag", cell: behind },
    { text: "Behind in time", kind: "number", sort: "-lag_ms", cell: behindInTime },
    { text: "Until gone", kind: "number", cell: untilGone },
    { text: "Protocol", kind: "value", cell: protocolOf },
  ],
});

export const groupView = {
  title: (route) => route.id,
  tools(context) {
    const own = `${context.path}/groups/${encodeURIComponent(context.route.id)}`;
    const button = (text, action) => actionButton(text, () => action(own, context.route.id), context);
    return [button("Reset offsets", resetOffsets), button("Delete", deleteGroup)];
  },
  async ask({ path, route }) {
    const id = encodeURIComponent(route.id);
    const [told, hour] = await Promise.all([coordinatorsTold(`${path}/groups/${id}`), ask(`${path}/history/groups/${id}`)]);
    return { ...told, hour };
  },
  draw(body, { body: group, failure, hour }, { cluster }) {
    if (failure) return show(body, unknown(failure));
    const names = new Map(group.members.map((member) => [member.member_id, member.client_id]));
    return show(
      body,
      figures([
        ["State", stateOf(group)],
        ["Records behind", group.lag === null ? "unknown" : [count(group.lag), h("span", { class: "quiet" }, ` as of ${duration(group.lag_age_ms)} ago`)]],
        ["Behind in time", behindInTime(group)],
        ["Until gone", group.until_gone_ms === null ? "it does not shrink, or keeps up" : untilGone(group)],
        ["Members", count(group.members_total)],
        ["Partitions", count(group.partitions_total)],
        ["Protocol", `${protocolOf(group)}${group.assignor ? `, assigned by ${group.assignor}` : ""}`],
        ["Last rebalance", rebalanceOf(group.last_rebalance)],
        ["Coordinator", `${group.coordinator_id} at ${group.coordinator_endpoint}`],
      ]),
      h("h2", {}, "The last hour"),
      hourOf("group", `${cluster.name} ${group.group_id}`, hour, body.clientWidth),
      h("h2", {}, "Members"),
      group.members.length === 0 ? h("p", { class: "empty" }, "None. Its offsets can be reset, and it can be deleted.") : memberTable(group),
      h("h2", {}, "Partitions"),
      group.partitions.length === 0 ? h("p", { class: "empty" }, "None is assigned or has a committed offset.") : partitionTable(group, names, cluster.name),
    );
  },
};

/** The answer, or why coordinators have none: then other views have theirs, and the page goes on. */
async function coordinatorsTold(path) {
  const answer = await ask(path);
  if (answer.failure && !isOfCoordinators(answer.failure)) throw answer.failure;
  return answer;
}

function isOfCoordinators(failure) {
  return failure.kind === "problem" && failure.problem.status !== 404;
}

function unknown(failure) {
  return [h("p", { class: "empty" }, `${capital(failure.message)}.`), failure.problem.hint ? h("p", { class: "quiet" }, failure.problem.hint) : null];
}

function stateOf({ state }) {
  return badge({ stable: "active", empty: "plain" }[state] ?? "running", state.replace("_", " "));
}

function protocolOf(group) {
  return group.protocol_type || "none: it only keeps offsets";
}

/** When it was, how long it took or takes, and why. */
function rebalanceOf(last) {
  if (last === null) return "unknown: not reported to this controller yet";
  const lasted = last.began_at === null ? "" : ` ${duration(Date.parse(last.ended_at ?? new Date()) - Date.parse(last.began_at))}`;
  const when = last.ended_at === null ? ["running,", lasted] : [ago(last.ended_at), lasted === "" ? "" : ["; it took", lasted]];
  return [when, h("span", { class: "quiet" }, capital(last.reason ?? "why is not known: its coordinator took it over since"))];
}

function memberTable({ members, members_total: total }) {
  const shown = members.slice(0, ROWS_SHOWN);
  return [
    table(
      "Members",
      [["Member"], ["Partitions", "number"], ["Assigned", "why"]],
      shown.map((member) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, h("b", {}, member.client_id || "no client id"), h("span", { class: "quiet" }, `${member.instance_id ? `static ${member.instance_id} · ` : ""}${member.host}`), h("span", { class: "quiet" }, member.member_id)),
          h("td", { class: "number" }, count(member.assigned.reduce((sum, topic) => sum + topic.partitions.length, 0))),
          h("td", { class: "why" }, h("ul", { class: "reasons" }, member.assigned.map((topic) => h("li", {}, `${topic.topic}: ${ranges(topic.partitions)}`)))),
        ),
      ),
    ),
    firstOf(shown.length, total),
  ];
}

/** Of more partitions than are shown, those that are farthest behind. */
function partitionTable({ partitions, partitions_total: total }, names, cluster) {
  const farthest = [...partitions].sort((a, b) => (b.lag ?? -1) - (a.lag ?? -1)).slice(0, ROWS_SHOWN);
  const shown = farthest.sort((a, b) => (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition));
  return [
    table(
      "Partitions",
      [["Partition"], ["Read by"], ["Committed", "number"], ["End", "number"], ["Behind at this moment", "number"]],
      shown.map((item) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, h("a", { href: hrefOf(cluster, "topics", item.topic) }, `${item.topic}-${item.partition}`)),
          h("td", { title: item.member_id }, item.member_id === null ? "no member" : names.get(item.member_id) || item.member_id),
          h("td", { class: "number" }, item.committed_offset === null ? "none" : count(item.committed_offset)),
          h("td", { class: "number" }, item.log_end_offset === null ? "unknown" : count(item.log_end_offset)),
          h("td", { class: "number" }, item.lag === null ? "unknown" : [plural(item.lag, "record"), h("span", { class: "quiet" }, item.lag_ms === null ? "time unknown" : duration(item.lag_ms))]),
        ),
      ),
    ),
    firstOf(shown.length, total),
  ];
}

function firstOf(shown, total) {
  return shown < total ? h("p", { class: "empty" }, `${count(shown)} of ${count(total)} are shown.`) : null;
}

/** ranges([0, 1, 2, 5]) is "0–2, 5". */
function ranges(numbers) {
  const runs = [];
  for (const number of numbers) {
    const run = runs.at(-1);
    if (run && number === run[1] + 1) run[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
}
