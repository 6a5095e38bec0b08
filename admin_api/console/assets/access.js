// Who may do what: users, ACLs, quotas, and why a principal may or may not do something. Each has an address:
// #prod/access, #prod/access/acls, #prod/access/quotas, #prod/access/explain.

import { actionButton } from "./actions.js";
import { ask } from "./api.js";
import { ago, h, show } from "./dom.js";
import { capital, count, plural } from "./format.js";
import { OPERATIONS, RESOURCE_TYPES, aclText, addAcls, deleteUser, entityOf, pairs, removeAcls, resourceOf, setPassword, setQuotas } from "./rights.js";
import { filterBy, hrefOf, routeOf } from "./route.js";
import { badge, table } from "./tables.js";

const LISTED = 500;
const ANY = ["", "any"];
const AUTHORIZER = "authorizer.class.name";
const TABS = [[null, "Users"], ["acls", "ACLs"], ["quotas", "Quotas"], ["explain", "May it?"]];
const ACL_FILTERS = [
  { name: "principal", text: "Principal" },
  { name: "permission", text: "Permission", options: [ANY, ...pairs(["allow", "deny"])] },
  { name: "operation", text: "Operation", options: [ANY, ...pairs([...OPERATIONS, "all"])] },
  { name: "resource_type", text: "Resource", options: [ANY, ...pairs(RESOURCE_TYPES)] },
  { name: "resource_name", text: "Its name" },
  { name: "pattern_type", text: "The name is", options: [["", "the ACL's own"], ["match", "a resource that it is for"]] },
  { name: "host", text: "Address" },
];
const QUOTA_FILTERS = [{ name: "user", text: "User" }, { name: "client_id", text: "Client id" }, { name: "ip", text: "Address" }];
const QUESTION = [
  { name: "principal", text: "May", needed: true, hint: "User:alice" },
  { name: "operation", text: "do", options: pairs(OPERATIONS) },
  { name: "resource_type", text: "on", options: pairs(RESOURCE_TYPES) },
  { name: "resource_name", text: "of the name", needed: true, hint: "orders" },
  { name: "host", text: "from the address", hint: "any" },
];

const usersView = {
  title: () => "Users",
  tools: (context) => [...filters([{ name: "prefix", text: "Name begins with" }], context), actionButton("Add a user", () => setPassword(context), context)],
  ask: ({ path, route }) => told(`${path}/users`, wantedOf(route, [{ name: "prefix" }])),
  draw(body, answer, context) {
    drawList(body, answer, "user", () =>
      table(
        "Users",
        [["User"], ["Logs in by"], ["Changed"], [""]],
        answer.body.items.map((user) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, h("a", { href: `${hrefOf(context.cluster.name, "access", "acls")}?${new URLSearchParams({ principal: `User:${user.user}` })}`, title: "Its ACLs" }, user.user)),
            h("td", {}, user.mechanisms.map((known) => badge("plain", known.mechanism))),
            h("td", {}, changed(user.last_change)),
            h("td", { class: "why" }, rowButton("Set password", user.user, () => setPassword(context, user.user), context), rowButton("Delete", user.user, () => deleteUser(context, user.user), context)),
          ),
        ),
      ),
    );
  },
};

const aclsView = {
  title: () => "ACLs",
  tools(context) {
    const now = () => routeOf(location.hash);
    return [
      ...filters(ACL_FILTERS, context),
      actionButton("Add ACLs", () => addAcls({ ...context, route: now() }), context),
      actionButton("Remove what is listed", () => removeAcls(context, wantedOf(now(), ACL_FILTERS), "each ACL that is like this"), context),
    ];
  },
  async ask({ path, route }) {
    const [answer, configs] = await Promise.all([told(`${path}/acls`, wantedOf(route, ACL_FILTERS)), ask(`${path}/configs`)]);
    return { ...answer, authorizer: configs.body?.items.find((item) => item.name === AUTHORIZER) };
  },
  draw(body, answer, context) {
    const decides = answer.authorizer === undefined || Boolean(answer.authorizer.value);
    const first = decides ? null : h("p", { class: "quiet" }, `They decide nothing yet, and each client may do everything: the cluster's setting ${AUTHORIZER} is empty.`);
    drawList(
      body,
      answer,
      "ACL",
      () =>
        table(
          "ACLs",
          [["Principal"], [""], ["Operation"], ["On"], ["From"], [""]],
          answer.body.items.map((acl) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, acl.principal),
              h("td", {}, badge(acl.permission === "allow" ? "active" : "failed", acl.permission)),
              h("td", {}, acl.operation.replaceAll("_", " ")),
              h("td", { class: "value" }, resourceOf(acl)),
              h("td", { class: "value" }, acl.host === "*" ? "any address" : acl.host),
              h("td", {}, rowButton("Remove", aclText(acl), () => removeAcls(context, acl, "this ACL"), context)),
            ),
          ),
        ),
      first,
    );
  },
};

const quotasView = {
  title: () => "Quotas",
  tools: (context) => [...filters(QUOTA_FILTERS, context), actionButton("Set quotas", () => setQuotas(context), context)],
  ask: ({ path, route }) => told(`${path}/quotas`, wantedOf(route, QUOTA_FILTERS)),
  draw(body, answer, context) {
    drawList(body, answer, "entity", () =>
      table(
        "Quotas",
        [["Whose"], ["Changed"], ["Quotas", "why"], [""]],
        answer.body.items.map((item) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, capital(entityOf(item))),
            h("td", {}, changed(item.last_change)),
            h("td", { class: "why" }, h("ul", {}, Object.entries(item.quotas).map(([name, value]) => h("li", {}, `${name} ${count(value)}`)))),
            h("td", {}, rowButton("Change", entityOf(item), () => setQuotas(context, item), context)),
          ),
        ),
      ),
      null,
      "entities",
    );
  },
};

/** Asked for with a button: half a name is no question. */
const explainView = {
  title: () => "May this principal do that?",
  tools(context) {
    const fields = inputsOf(QUESTION, context.route);
    const form = h("form", { class: "tools", id: "question" }, fields.map(([, , label]) => label), h("button", { type: "submit", class: "small" }, "Ask"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      filterBy(valuesOf(fields));
      context.refresh();
    });
    return form;
  },
  async ask({ path, route }) {
    const wanted = wantedOf(route, QUESTION);
    if (!wanted.principal || !wanted.resource_name) return { body: null };
    return ask(`${path}/acls:explain?${new URLSearchParams({ operation: OPERATIONS[0], resource_type: RESOURCE_TYPES[0], ...wanted })}`);
  },
  draw(body, { body: answer, failure }) {
    if (failure) return show(body, refusal(failure));
    if (answer === null) return show(body, h("p", { class: "empty" }, "The ACLs say why, and what would have to change."));
    const list = (title, acls) => (acls.length === 0 ? null : [h("h2", {}, title), h("ul", { class: "reasons" }, acls.map((acl) => h("li", {}, aclText(acl))))]);
    show(
      body,
      h("p", { class: "line" }, h("b", {}, answer.allowed ? "It may." : "It may not."), badge(answer.allowed ? "active" : "failed", answer.allowed ? "allowed" : "denied")),
      h("p", {}, `${capital(answer.words)}.`),
      answer.authorizer ? null : h("p", { class: "quiet" }, `ACLs do not decide: the cluster's setting ${AUTHORIZER} is empty, and each client may do everything.`),
      list("What would have to go", answer.remove),
      answer.add === null ? null : list("What would have to be added", [answer.add]),
    );
  },
};

export const accessView = withTabs(usersView);
const PARTS = { acls: withTabs(aclsView), quotas: withTabs(quotasView), explain: withTabs(explainView) };

/** The part of this address; users where there is none of that name. */
export function accessPart(route) {
  return PARTS[route.id] ?? accessView;
}

function withTabs(view) {
  return {
    ...view,
    path({ cluster, route }) {
      const href = (id) => (id === null ? hrefOf(cluster.name, "access") : hrefOf(cluster.name, "access", id));
      return h("ul", {}, TABS.map(([id, text]) => h("li", {}, h("a", { href: href(id), "aria-current": (route.id ?? null) === id ? "page" : null }, text))));
    },
  };
}

/** [field, input, label] of each, with the values of the address. */
function inputsOf(fields, route) {
  return fields.map((field) => {
    const attributes = { id: `filter-${field.name}`, required: field.needed, placeholder: field.options ? null : (field.hint ?? "any"), autocomplete: "off", spellcheck: "false", maxlength: field.options ? null : 1_000 };
    const input = field.options ? h("select", attributes, field.options.map(([value, text]) => h("option", { value }, text))) : h("input", attributes);
    input.value = route.query.get(field.name) ?? field.options?.[0][0] ?? "";
    return [field, input, h("label", { class: "field" }, field.text, input)];
  });
}

function valuesOf(inputs) {
  return Object.fromEntries(inputs.map(([field, input]) => [field.name, input.value.trim()]));
}

/** Fields that narrow the list at each change. */
function filters(fields, context) {
  const inputs = inputsOf(fields, context.route);
  for (const [, input] of inputs) {
    input.addEventListener("change", () => {
      filterBy(valuesOf(inputs));
      context.refresh();
    });
  }
  return inputs.map(([, , label]) => label);
}

function wantedOf(route, fields) {
  return Object.fromEntries(fields.map(({ name }) => [name, route.query.get(name)]).filter(([, value]) => value));
}

/** A list, or why it is not told: users and ACLs are for operators. */
async function told(path, wanted) {
  return ask(`${path}?${new URLSearchParams({ limit: LISTED, ...wanted })}`);
}

function drawList(body, { body: answer, failure }, thing, draw, first = null, many = undefined) {
  if (failure) return show(body, refusal(failure));
  const { items, next_page_token: more } = answer;
  const shown = more ? `The first ${count(items.length)}: narrow the list to see others` : plural(items.length, thing, many);
  return show(body, first, items.length === 0 ? h("p", { class: "empty" }, "There is none like this.") : [h("p", { class: "quiet" }, shown), draw()]);
}

function refusal(failure) {
  if (failure.kind !== "problem" || failure.problem.status === 404) throw failure;
  return [h("p", { class: "empty" }, `${capital(failure.message)}.`), failure.problem.hint ? h("p", { class: "quiet" }, failure.problem.hint) : null];
}

/** A button of a row: its label says which row. */
function rowButton(text, of, action, context) {
  const button = actionButton(text, action, context);
  button.setAttribute("aria-label", `${text}: ${of}`);
  return button;
}

function changed(last) {
  return last === null ? h("span", { class: "quiet" }, "unknown") : [last.actor, h("span", { class: "quiet" }, ago(last.at))];
}
