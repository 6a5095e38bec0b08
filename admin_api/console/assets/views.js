// The views beside the first page. Each has an address, asks for what it shows, and draws it again with each round.
// A view's tools are made once, when it is entered: what a person types in them stays.

import { accessPart, accessView } from "./access.js";
import { auditView } from "./history.js";
import { brokerView, brokersView } from "./brokers.js";
import { coordinatorsView } from "./coordinators.js";
import { groupView, groupsView } from "./groups.js";
import { heatView } from "./heat.js";
import { recordsView } from "./records.js";
import { operationView, operationsView } from "./operations.js";
import { changesView } from "./settings.js";
import { topicView, topicsView } from "./topics.js";
import { transactionView, transactionsView } from "./transactions.js";
import { upgradeView } from "./upgrade.js";
import { webhooksView } from "./webhooks.js";
import { h, show } from "./dom.js";
import { hrefOf } from "./route.js";

/** By name: the list, and one thing of it, or what chooses it by its route. A view is { title(route), path(context): the
 * links above it, tools(context), ask(context), draw(body, answer, context) }. */
const VIEWS = {
  topics: { list: topicsView, one: topicView },
  records: { list: topicsView, one: recordsView },
  brokers: { list: brokersView, one: brokerView },
  groups: { list: groupsView, one: groupView },
  transactions: { list: transactionsView, one: transactionView },
  coordinators: { list: coordinatorsView, one: coordinatorsView },
  access: { list: accessView, part: accessPart },
  heat: { list: heatView, one: heatView },
  operations: { list: operationsView, one: operationView },
  changes: { list: changesView, one: changesView },
  webhooks: { list: webhooksView, one: webhooksView },
  upgrade: { list: upgradeView, one: upgradeView },
  audit: { list: auditView, one: auditView },
};

export function viewOf(route) {
  const found = VIEWS[route.view];
  if (!found) return null;
  return route.id === null ? found.list : (found.part?.(route) ?? found.one);
}

export function showTabs(node, cluster, route) {
  const tab = (view, text) =>
    h("li", {}, h("a", { href: view === "" ? hrefOf(cluster) : hrefOf(cluster, view), "aria-current": (route.view === "records" ? "topics" : route.view) === view ? "page" : null }, text));
  show(node, h("ul", {}, tab("", "Overview"), tab("topics", "Topics"), tab("brokers", "Brokers"), tab("groups", "Groups"), tab("transactions", "Transactions"), tab("coordinators", "Coordinators"), tab("heat", "Heat map"), tab("access", "Access"), tab("operations", "Operations"), tab("webhooks", "Webhooks"), tab("audit", "Audit")));
}

/** Makes the place of a view, with its tools. */
export function enter(node, view, context) {
  node.replaceChildren(
    h("nav", { class: "path", "aria-label": "Where you are" }, view.path ? view.path(context) : context.route.id === null ? null : h("a", { href: hrefOf(context.cluster.name, context.route.view) }, `All ${context.route.view}`)),
    h("h1", { id: "view-title" }, view.title(context.route)),
    h("div", { class: "tools" }, view.tools ? view.tools(context) : []),
    h("section", { class: "panel", "aria-labelledby": "view-title" }, h("div", { class: "body" })),
  );
}
