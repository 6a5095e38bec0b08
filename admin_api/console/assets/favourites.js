// A reader's favourites: topics and groups that come first in their lists. They stay in this browser.

import { h } from "./dom.js";

const KEY = "springtide.favourites";
/** Of one kind in one cluster. */
const FAVOURITES_MAX = 50;

/** Names, in the order in which they were chosen. kind: "topics" or "groups". */
export function favouritesOf(cluster, kind) {
  const names = kept()[cluster]?.[kind];
  return Array.isArray(names) ? names.filter((name) => typeof name === "string").slice(0, FAVOURITES_MAX) : [];
}

/** A button that makes a thing a favourite, or one no more. */
export function star(cluster, kind, name, changed) {
  const isOne = favouritesOf(cluster, kind).includes(name);
  const button = h("button", { type: "button", class: "star", "aria-pressed": String(isOne), "aria-label": `Favourite: ${name}`, title: isOne ? "No favourite any more" : "Make it a favourite: it comes first" }, "★");
  button.addEventListener("click", () => {
    const others = favouritesOf(cluster, kind).filter((other) => other !== name);
    keep(cluster, kind, isOne ? others : [...others, name].slice(-FAVOURITES_MAX));
    changed();
  });
  return button;
}

/** What was kept; nothing where the browser keeps nothing for pages, or something else wrote it. */
function kept() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return found !== null && typeof found === "object" ? found : {};
  } catch {
    return {};
  }
}

function keep(cluster, kind, names) {
  const all = kept();
  all[cluster] = { ...all[cluster], [kind]: names };
  try {
    localStorage.setItem(KEY, JSON.stringify(all));
  } catch {
    console.warn("this browser keeps nothing for pages: favourites are lost");
  }
}
