// A list, a page of rows at a time: sorted by its headings, searched, with favourites first. All of that is in the
// address ("#prod/topics?sort=-size&q=ord&page=…"), so that a link shows the same. The API sorts and searches: a list
// of ten thousand costs the page no more than one of a hundred.

import { ask as askFor } from "./api.js";
import { h, show } from "./dom.js";
import { favouritesOf, star } from "./favourites.js";
import { hrefOf, routeOf } from "./route.js";
import { table } from "./tables.js";

const ROWS = 100;
/** A person goes on typing for about so long. */
const TYPING_MS = 200;
const PHONE_SORT = "sort";

/** A view of a list.
 *
 * noun: of the path and the address ("topics"). title: also its table's name. order: by default. columns: { text, kind: a
 * class, sort: the API's order (with a minus: the first click sorts descending), cell(item, context) }. nameOf(item).
 * favourite: the API's parameter for whole names; null: it has no favourites. filters: parameters that come from the
 * address as they are. about(answer, context): nodes above the table. empty: what is said of a cluster that has none. tools:
 * more of them. beside(context): what else is asked for, given to cells as context.beside. told(failure): what is
 * shown instead of the list, { failure, says }. */
export function listView({ noun, title, order, columns, nameOf, favourite = null, filters = [], about = () => null, empty, tools = () => [], beside = () => null, told = (failure) => Promise.reject(failure) }) {
  return {
    title: () => title,
    tools: (context) => [searchField(context), sortField(context, columns, order), tools(context)],
    async ask(context) {
      const { path, route, cluster } = context;
      const { query } = route;
      const wanted = new URLSearchParams([...query].filter(([name, value]) => filters.includes(name) && value));
      if (query.get("q")) wanted.set("search", query.get("q"));
      wanted.set("sort", query.get("sort") || order);
      const first = new URLSearchParams([...wanted, ...favouriteNames(cluster.name, noun, favourite)]);
      wanted.set("limit", ROWS);
      if (query.get("page")) wanted.set("page_token", query.get("page"));
      const hasFavourites = favourite !== null && first.has(favourite) && !query.get("page");
      const [list, favourites, more] = await Promise.all([askFor(`${path}/${noun}?${wanted}`), hasFavourites ? askFor(`${path}/${noun}?${first}`) : null, beside(context)]);
      if (list.failure) return told(list.failure);
      return { list: list.body, favourites: favourites?.body?.items ?? [], beside: more };
    },
    draw(body, answer, context) {
      const { route, cluster } = context;
      keepInStep(route.query, order);
      if (answer.failure) return show(body, answer.says);
      const { list, favourites } = answer;
      const starred = new Set(favourites.map(nameOf));
      const items = [...favourites, ...list.items.filter((item) => !starred.has(nameOf(item)))];
      const isNarrowed = ["q", ...filters].some((name) => route.query.get(name));
      if (items.length === 0) return show(body, about(list, context), h("p", { class: "empty" }, isNarrowed ? "None is like this." : empty));
      const shown = { ...context, beside: answer.beside };
      return show(
        body,
        about(list, context),
        table(
          title,
          columns.map(({ text, kind, sort }) => [text, kind, sort ? heading(route, sort, order) : null]),
          items.map((item) => row(item, { columns, shown, cluster, noun, name: nameOf(item), favourite })),
        ),
        pages(route, list.next_page_token),
      );
    },
  };
}

function favouriteNames(cluster, noun, parameter) {
  return parameter === null ? [] : favouritesOf(cluster, noun).map((name) => [parameter, name]);
}

function row(item, { columns, shown, cluster, noun, name, favourite }) {
  const [first, ...others] = columns;
  const mark = favourite === null ? null : star(cluster.name, noun, name, shown.refresh);
  return h("tr", {}, h("th", { scope: "row", class: mark ? "starred" : null }, mark, first.cell(item, shown)), others.map(({ kind, cell }) => h("td", { class: kind }, cell(item, shown))));
}

/** The address of this list with other parameters; those that are null are left out, and so is the page. */
export function addressOf({ cluster, view, query }, changes) {
  const wanted = new URLSearchParams(query);
  for (const [name, value] of Object.entries({ page: null, ...changes })) {
    if (value) wanted.set(name, value);
    else wanted.delete(name);
  }
  return `${hrefOf(cluster, view)}${wanted.size > 0 ? `?${wanted}` : ""}`;
}

/** Where a click on a heading leads, and how the list is sorted by it now. */
function heading(route, sort, order) {
  const now = route.query.get("sort") || order;
  const key = sort.replace("-", "");
  const isNow = now.replace("-", "") === key;
  const turned = now.startsWith("-") ? key : `-${key}`;
  return { href: addressOf(route, { sort: isNow ? turned : sort }), state: isNow ? (now.startsWith("-") ? "descending" : "ascending") : null };
}

function pages(route, token) {
  const isFirst = !route.query.get("page");
  if (isFirst && !token) return null;
  return h(
    "nav",
    { class: "pages", "aria-label": "Pages" },
    isFirst ? null : h("a", { href: addressOf(route, {}) }, "First page"),
    token ? h("a", { href: addressOf(route, { page: token }) }, `Next ${ROWS}`) : h("span", { class: "quiet" }, "This is the last page."),
  );
}

function searchField(context) {
  const search = h("input", { type: "search", id: "search", placeholder: "part of a name", maxlength: 249, autocomplete: "off", spellcheck: "false" });
  search.value = context.route.query.get("q") ?? "";
  let typing = null;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => narrow(context, { q: search.value }), TYPING_MS);
  });
  return h("label", { class: "field" }, "Search", search);
}

/** Puts a filter into the address, and asks again. */
export function narrow(context, changes) {
  const route = routeOf(location.hash);
  if (route.view !== context.route.view || route.id !== null) return;
  history.replaceState(null, "", addressOf(route, changes));
  context.refresh();
}

/** On a phone there are no headings to click on. */
function sortField(context, columns, order) {
  const select = h("select", { id: PHONE_SORT }, columns.filter(({ sort }) => sort).map(({ text, sort }) => h("option", { value: sort }, text)));
  select.value = context.route.query.get("sort") || order;
  select.addEventListener("change", () => narrow(context, { sort: select.value }));
  return h("label", { class: "field phone" }, "Sort by", select);
}

/** The fields show what the address says, which a reader may have gone back to. */
function keepInStep(query, order) {
  for (const [id, value] of [["search", query.get("q") ?? ""], [PHONE_SORT, query.get("sort") || order]]) {
    const field = document.getElementById(id);
    if (field && field !== document.activeElement && field.value !== value) field.value = value;
  }
}
