// Where partitions are: topics over brokers, the largest topics first. The stronger the colour, the more of it.

import { get } from "./api.js";
import { h, show } from "./dom.js";
import { bytes, count, plural } from "./format.js";
import { filterBy, hrefOf } from "./route.js";

const TOPICS_SHOWN = 50;
const STEPS = 5;
const MEASURES = { bytes: ["Bytes", bytes], leaders: ["Leaders", count], replicas: ["Replicas", count] };

const measureOf = ({ query }) => (query.get("measure") in MEASURES ? query.get("measure") : "bytes");

export const heatView = {
  title: () => "Heat map",
  tools(context) {
    const choice = h("select", { id: "measure" }, Object.entries(MEASURES).map(([name, [text]]) => h("option", { value: name }, text)));
    choice.value = measureOf(context.route);
    choice.addEventListener("change", () => {
      filterBy({ measure: choice.value });
      context.refresh();
    });
    return h("label", { class: "field" }, "What is counted", choice);
  },
  ask: async ({ path, route }) => (await get(`${path}/heat-map?measure=${measureOf(route)}&limit=${TOPICS_SHOWN}`)).body,
  draw(body, answer, { cluster }) {
    const { items, brokers, measure, next_page_token: more } = answer;
    if (items.length === 0) return show(body, h("p", { class: "empty" }, "No topics yet."));
    const text = MEASURES[measure][1];
    const most = Math.max(1, ...items.flatMap((row) => row.values.map((value) => value ?? 0)));
    const cell = (value) => h("td", { class: `number heat-${value === null ? "unknown" : Math.ceil((STEPS * value) / most)}` }, value === null ? "unknown" : value === 0 ? "" : text(value));
    const sums = brokers.map((_, index) => items.reduce((sum, row) => sum + (row.values[index] ?? 0), 0));
    const unknown = items.reduce((sum, row) => sum + row.unknown_partitions, 0);
    return show(
      body,
      h("p", { class: "quiet" }, `${more ? `The ${TOPICS_SHOWN} topics that have most` : "All topics"}. The strongest colour is ${text(most)}.${measure === "bytes" && unknown > 0 ? ` The size of ${plural(unknown, "partition")} is unknown.` : ""}`),
      h(
        "div",
        { class: "heat", role: "region", "aria-label": "Topics over brokers", tabindex: "0" },
        h(
          "table",
          {},
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Topic"), brokers.map((id) => h("th", { scope: "col", class: "number" }, h("a", { href: hrefOf(cluster.name, "brokers", id) }, `Broker ${id}`))))),
          h("tbody", {}, items.map((row) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: hrefOf(cluster.name, "topics", row.topic) }, row.topic)), row.values.map(cell)))),
          h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, "Together"), sums.map((sum) => h("td", { class: "number" }, text(sum))))),
        ),
      ),
    );
  },
};
