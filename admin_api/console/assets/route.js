// The address's fragment: "#prod/topics/orders?q=text" names a cluster, a view, a thing in it and a filter. Each part
// is percent-encoded, so any name fits.

/** { cluster, view, id, query }; view is "" for the first page, id null for a list. */
export function routeOf(fragment) {
  const [path, query] = fragment.replace(/^#/, "").split("?");
  const [cluster, view = "", id = null] = path.split("/").map(decoded);
  return { cluster, view, id: id === "" ? null : id, query: new URLSearchParams(query ?? "") };
}

/** A fragment that a person mistyped is taken as it is. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** hrefOf("prod", "topics", "orders") is "#prod/topics/orders". */
export function hrefOf(...parts) {
  return `#${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}

/** Puts a filter into the address: a reload or a bookmark keeps it. Empty values are left out. */
export function filterBy(values) {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ""));
  const [path] = location.hash.split("?");
  history.replaceState(null, "", query.size > 0 ? `${path}?${query}` : path);
}
