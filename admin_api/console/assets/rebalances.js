// Why a group was rebalanced, what that moved, and whom it waits for.

import { ago, h } from "./dom.js";
import { capital, count, duration, plural } from "./format.js";
import { table } from "./tables.js";

export function rebalancesOf(answer) {
  if (answer.failure) return h("p", { class: "empty" }, `${capital(answer.failure.message)}.`);
  const { items } = answer.body;
  if (items.length === 0) return h("p", { class: "empty" }, "None that was reported to this controller.");
  return table("Rebalances", [["Began"], ["Why", "why"], ["Took", "number"], ["Moved", "why"]], items.map(row));
}

function row(rebalance) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, rebalance.began_at === null ? "unknown" : ago(rebalance.began_at)),
    h("td", { class: "why" }, reasons(whyOf(rebalance))),
    h("td", { class: "number" }, tookOf(rebalance)),
    h("td", { class: "why" }, reasons(movedOf(rebalance))),
  );
}

function reasons(lines) {
  return h("ul", { class: "reasons" }, lines.map((line) => h("li", {}, line)));
}

function whyOf({ causes, causes_total: total, reason, waiting_for: awaited, waiting_for_total: all }) {
  const why = causes.length === 0 ? [reason ?? "not known"] : causes.map((cause) => cause.text);
  return [
    ...why.map(capital),
    causes.length < total ? `and ${plural(total - causes.length, "more cause")}` : null,
    ...awaited.map((one) => [h("b", {}, "Waits"), ` for ${one.member_id === null ? "" : `member ${one.member_id} `}${one.what}, since `, ago(one.since)]),
    awaited.length < all ? `and for ${count(all - awaited.length)} more` : null,
  ].filter((line) => line !== null);
}

function tookOf({ state, took_ms: ms, began_at: began }) {
  if (state === "under_way") return ["running", began === null ? null : h("span", { class: "quiet" }, duration(Date.now() - Date.parse(began)))];
  return [duration(ms), state === "superseded" ? h("span", { class: "quiet" }, "the next one overtook it") : null];
}

function movedOf(rebalance) {
  const { moves, partitions_moved: moved, partitions_to_move: all, partitions_paused: paused, paused_ms_max: pausedMs } = rebalance;
  if (moved === null) return ["unknown"];
  const told = moves.reduce((sum, move) => sum + move.count, 0);
  return [
    moved === 0 && !all ? "No partition" : null,
    moved < all ? `${count(moved)} of ${plural(all, "partition")} so far` : null,
    ...moves.map((move) => [
      `${plural(move.count, "partition")}${move.from_member_id === null ? "" : ` from ${move.from_member_id}`} to ${move.to_member_id}`,
      move.unowned_ms_max === null ? h("span", { class: "quiet" }, "without a member before") : h("span", { class: "quiet" }, `without a member for ${duration(move.unowned_ms_max)}${move.count > 1 ? " at most" : ""}`),
    ]),
    told < moved ? `and ${plural(moved - told, "partition")} more` : null,
    paused ? `${plural(paused, "partition")} stood still for ${duration(pausedMs)}${paused > 1 ? " at most" : ""}` : null,
  ].filter((line) => line !== null);
}
