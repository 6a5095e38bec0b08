// How far groups are behind, in words, and the groups that read a topic.

import { h } from "./dom.js";
import { count, duration } from "./format.js";
import { hrefOf } from "./route.js";
import { table } from "./tables.js";

/** A lag is told every few seconds; one that is older is said to be. */
const FRESH_MS = 30_000;

/** Records, and how old that is when it is not of now. */
export function behind(item) {
  if (item.lag === null) return "unknown";
  return [count(item.lag), item.lag_age_ms > FRESH_MS ? h("span", { class: "quiet" }, `${duration(item.lag_age_ms)} ago`) : null];
}

export function behindInTime(item) {
  return item.lag_ms === null ? "unknown" : duration(item.lag_ms);
}

/** The time until nothing is left. */
export function untilGone(item) {
  return item.until_gone_ms === null ? "–" : duration(item.until_gone_ms);
}

export function readersOf(topic, cluster) {
  if (topic.groups === null) return h("p", { class: "empty" }, "Unknown: only the active controller hears of groups.");
  if (topic.readers.length === 0) return h("p", { class: "empty" }, "None has committed an offset of it.");
  return table(
    "Groups that read it",
    [["Group"], ["Members", "number"], ["Records behind", "number"], ["Behind in time", "number"], ["Until gone", "number"]],
    topic.readers.map((reader) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, h("a", { href: hrefOf(cluster, "groups", reader.group_id) }, reader.group_id)),
        h("td", { class: "number" }, count(reader.members_total)),
        h("td", { class: "number" }, behind(reader)),
        h("td", { class: "number" }, behindInTime(reader)),
        h("td", { class: "number" }, untilGone(reader)),
      ),
    ),
  );
}
