// The audit: who changed what, folded by operation and request, with filters that are in the address.

import { get } from "./api.js";
import { h, show } from "./dom.js";
import { filterBy, hrefOf } from "./route.js";
import { eventsOf } from "./work.js";

const ROWS = 500;
const FILTERS = { topic: "Topic", broker: "Broker", actor: "Who", cause: "Cause", operation: "Operation" };

export const auditView = {
  title: () => "Audit",
  tools(context) {
    const fields = Object.entries(FILTERS).map(([name, text]) => {
      const field = h("input", { type: "search", id: `filter-${name}`, autocomplete: "off", spellcheck: "false" });
      field.value = context.route.query.get(name) ?? "";
      field.addEventListener("change", () => {
        filterBy(Object.fromEntries(Object.keys(FILTERS).map((key) => [key, document.getElementById(`filter-${key}`).value.trim()])));
        context.refresh();
      });
      return h("label", { class: "field" }, text, field);
    });
    return [fields, h("a", { href: hrefOf(context.cluster.name, "changes") }, "Changes of settings")];
  },
  async ask({ query, route }) {
    const wanted = new URLSearchParams([...route.query].filter(([name]) => name in FILTERS || name === "page_token"));
    const [audit, operations] = await Promise.all([get(`/audit?${query}&limit=${ROWS}${wanted.size > 0 ? `&${wanted}` : ""}`), get(`/operations?${query}&limit=200`)]);
    return { audit: audit.body, operations: operations.body.items };
  },
  draw(body, { audit, operations }, { cluster, route }) {
    const older = new URLSearchParams([...route.query].filter(([name]) => name !== "page_token"));
    older.set("page_token", audit.next_page_token ?? "");
    show(
      body,
      audit.items.length === 0 ? h("p", { class: "empty" }, "Nothing like this was changed.") : h("ol", { class: "audit" }, eventsOf(audit.items, operations)),
      audit.next_page_token ? h("p", {}, h("a", { href: `${hrefOf(cluster.name, "audit")}?${older}` }, "Older")) : null,
    );
  },
};
