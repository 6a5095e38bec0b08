// Consumer groups: the list with a search, and one group with its members and how far it has read.

import { actionButton } from "./actions.js";
import { ask } from "./api.js";
import { deleteGroup, resetOffsets } from "./changes.js";
import { ago, h, show } from "./dom.js";
import { capital, count, duration, plural } from "./format.js";
import { hourOf } from "./hour.js";
import { filterBy, hrefOf } from "./route.js";
import { badge, table } from "./tables.js";
import { figures } from "./topics.js";

const GROUPS_SHOWN = 200;
const ROWS_SHOWN = 500;
const STATES = ["stable", "empty", "preparing_rebalance", "completing_rebalance"];
const FILTERS = { prefix: "Id begins with", state: "State" };

export const groupsView = {
  title: () => "Groups",
  tools(context) {
    const { query } = context.route;
    const prefix = h("input", { type: "search", id: "filter-prefix", placeholder: "any", maxlength: 249, autocomplete: "off", spellcheck: "false" });
    prefix.value = query.get("prefix") ?? "";
    const state = h("select", { id: "filter-state" }, h("option", { value: "" }, "any"), STATES.map((name) => h("option", { value: name }, name.replace("_", " "))));
    state.value = query.get("state") ?? "";
    const filter = () => {
      filterBy({ prefix: prefix.value, state: state.value });
      context.refresh();
    };
    prefix.addEventListener("input", filter);
    state.addEventListener("change", filter);
    return [h("label", { class: "field" }, FILTERS.prefix, prefix), h("label", { class: "field" }, FILTERS.state, state)];
  },
  ask({ path, route }) {
    const wanted = new URLSearchParams([...route.query].filter(([name]) => name in FILTERS));
    return coordinatorsTold(`${path}/groups?limit=${GROUPS_SHOWN}${wanted.size > 0 ? `&${wanted}` : ""}`);
  },
  draw(body, { body: answer, failure }, { cluster, route }) {
    if (failure) return show(body, unknown(failure));
    const { items, unanswered, next_page_token: more } = answer;
    const missing = unanswered.length === 0 ? null : h("ul", { class: "blocked", "aria-label": "Not answered" }, h("li", {}, "Groups are missing here, for not every coordinator answered:"), unanswered.map((text) => h("li", {}, text)));
    const isNarrowed = Object.keys(FILTERS).some((name) => route.query.get(name));
    if (items.length === 0) return show(body, missing, h("p", { class: "empty" }, isNarrowed ? "No group is like this." : "No groups yet. A consumer with a group.id makes one."));
    return show(
      body,
      missing,
      h("p", { class: "quiet" }, more ? `The first ${items.length} groups: narrow the list to see others` : plural(items.length, "group")),
      table(
        "Groups",
        [["Group"], ["State"], ["Protocol"]],
        items.map((group) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: hrefOf(cluster.name, "groups", group.group_id) }, group.group_id)), h("td", {}, stateOf(group)), h("td", {}, protocolOf(group)))),
      ),
    );
  },
};

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
    const late = group.partitions.filter((item) => item.lag_ms !== null).map((item) => item.lag_ms);
    const names = new Map(group.members.map((member) => [member.member_id, member.client_id]));
    return show(
      body,
      figures([
        ["State", stateOf(group)],
        ["Behind", group.lag === null ? "unknown" : plural(group.lag, "record")],
        ["Behind in time", late.length === 0 ? "unknown" : `at most ${duration(Math.max(...late))}${late.length < group.partitions.length ? `; ${plural(group.partitions.length - late.length, "partition")} unknown` : ""}`],
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
  if (answer.failure && (answer.failure.kind !== "problem" || answer.failure.problem.status === 404)) throw answer.failure;
  return answer;
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
      [["Partition"], ["Read by"], ["Committed", "number"], ["End", "number"], ["Behind", "number"]],
      shown.map((item) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, h("a", { href: hrefOf(cluster, "topics", item.topic) }, `${item.topic}-${item.partition}`)),
          h("td", { title: item.member_id }, item.member_id === null ? "nobody" : names.get(item.member_id) || item.member_id),
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
