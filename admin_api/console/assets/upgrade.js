// Which release and level the cluster has, what is in the way of the next level, and finalizing it.

import { actionButton } from "./actions.js";
import { get } from "./api.js";
import { h, show } from "./dom.js";
import { capital, plural } from "./format.js";
import { hrefOf } from "./route.js";
import { badge, table } from "./tables.js";

export const upgradeView = {
  title: () => "Release and upgrade",
  tools: (context) => actionButton("Finalize the upgrade", () => finalizeUpgrade(context), context),
  async ask({ path }) {
    return (await get(`${path}/upgrade`)).body;
  },
  draw(body, status) {
    const { blockers, target_level: target } = status;
    show(
      body,
      h("p", {}, `The cluster is at level ${status.level}, of release ${status.release}. ${whatIsLeft(status)}`),
      blockers.length === 0 ? null : [h("h2", {}, `In the way of level ${target}`), h("ul", { class: "blocked", "aria-label": "In the way" }, blockers.map((one) => h("li", {}, `${capital(one.name)} ${one.reason}`)))],
      h("h2", {}, "Processes"),
      processTable(status),
    );
  },
};

/** [value, note] of the overview's figure. answer: the status, or its failure. */
export function releaseOf(answer, cluster) {
  if (!answer.body) return ["unknown", "only the active controller knows it"];
  const { level, release, target_level: target, target_release: next, blockers } = answer.body;
  const link = (text) => h("a", { href: hrefOf(cluster, "upgrade") }, text);
  if (target === level) return [release, link(`level ${level}, the highest`)];
  if (blockers.length === 0) return [release, link(`${next} waits to be finalized`), "degraded"];
  return [release, link(`on the way to ${next}: ${plural(blockers.length, "thing")} in the way`)];
}

function whatIsLeft({ level, target_level: target, target_release: next, blockers }) {
  if (target === level) return "That is the highest level of this release: nothing is left to be finalized.";
  const way = "Until the upgrade is finalized, each process can go back to the release before; after it there is no way back.";
  return blockers.length === 0 ? `All processes can run at level ${target}, of release ${next}. ${way}` : way;
}

function processTable({ processes }) {
  return table(
    "Processes",
    [["Process"], ["State"], ["Release"], ["Levels"]],
    processes.map((one) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, h("b", {}, one.name), h("span", { class: "quiet" }, one.kind)),
        h("td", {}, badge(one.is_running ? (one.is_active ? "active" : "waiting") : "fenced", stateOf(one))),
        h("td", {}, one.version || "not told"),
        h("td", {}, one.lowest_level === null ? "not told" : `${one.lowest_level} to ${one.highest_level}`),
      ),
    ),
  );
}

function stateOf(one) {
  if (!one.is_running) return "not running";
  if (one.is_active) return "active";
  return one.kind === "controller" ? "standby" : "running";
}

function finalizeUpgrade({ path }) {
  return {
    title: "Finalize the upgrade",
    before: "What is new in the release is written from then on. No process can go back to the release before.",
    request: () => ({ method: "POST", path: `${path}:finalize-upgrade`, body: {} }),
  };
}
