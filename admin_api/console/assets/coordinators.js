// Coordinators: the processes that serve client groups.

import { actionButton } from "./actions.js";
import { ask, everyOne } from "./api.js";
import { admitCoordinator } from "./changes.js";
import { h, show } from "./dom.js";
import { count } from "./format.js";
import { badge, marks, table } from "./tables.js";

/** Alarms that say why no group is served. */
const ALARMS = ["no_coordinator", "coordinator_topic_blocked"];

export const coordinatorsView = {
  title: () => "Coordinators",
  tools: (context) => actionButton("Admit a coordinator", () => admitCoordinator(context), context),
  async ask({ path }) {
    const [coordinators, alarms] = await Promise.all([everyOne(`${path}/coordinators`), ask(`${path}/alarms?limit=1000`)]);
    return { coordinators: coordinators.items, alarms: alarms.body?.items ?? [] };
  },
  draw(body, { coordinators, alarms }) {
    const raised = alarms.filter((alarm) => ALARMS.includes(alarm.code));
    show(
      body,
      raised.length === 0 ? null : h("ul", { class: "blocked", "aria-label": "Alarms" }, raised.map((alarm) => h("li", {}, alarm.detail))),
      coordinators.length === 0 ? h("p", { class: "empty" }, "None has registered: clients can't use groups. Start one with this cluster's name, and admit it.") : coordinatorTable(coordinators),
    );
  },
};

/** On the first page: nothing where there are none. */
export function showCoordinators(section, list) {
  section.hidden = list.length === 0;
  show(section.querySelector(".body"), coordinatorTable(list));
}

function coordinatorTable(list) {
  return table(
    "Coordinators",
    [["Coordinator"], ["State"], ["Shards owned", "number"], ["Shards followed", "number"]],
    list.map((coordinator) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, h("b", {}, String(coordinator.coordinator_id)), h("span", { class: "quiet" }, coordinator.endpoint, coordinator.rack ? ` · ${coordinator.rack}` : "")),
        h("td", {}, badge(coordinator.state), marks(coordinator).map((mark) => badge(mark))),
        h("td", { class: "number" }, count(coordinator.shards)),
        h("td", { class: "number" }, count(coordinator.followed_shards)),
      ),
    ),
  );
}
