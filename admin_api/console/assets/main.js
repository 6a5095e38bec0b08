// Asks, draws, waits, asks again. The address's fragment names the cluster; everything else is asked anew each time.

import { NoAnswer, ask, everyOne, get, keepToken } from "./api.js";
import { showCoordinators } from "./coordinators.js";
import { ago, h, show, tickAll } from "./dom.js";
import { clock, duration } from "./format.js";
import { hourOf } from "./hour.js";
import { remember, showLag } from "./lag.js";
import { showClusters, showOverview, verdictOn } from "./overview.js";
import { hrefOf, routeOf } from "./route.js";
import { showAlarms, showBrokers, showPartitions } from "./tables.js";
import { showMissing } from "./topics.js";
import { enter, showTabs, viewOf } from "./views.js";
import { isOneThing, showAudit, showOperations } from "./work.js";

const PAUSE_MS = 4_000;
const AUDIT_ROWS = 200;
const node = (id) => document.getElementById(id);

/** Alarms are raised by the active controller from what brokers report to it; a standby would send us there. */
const ELSEWHERE = { failure: new NoAnswer("elsewhere", "only the active controller knows") };

/** When an answer came last (wall clock), which cluster is shown, the pause before the next round, and its number. */
let answeredAt = null;
let drawn = null;
/** { address, context } of the view whose tools are on the page; null: the first page is. */
let entered = null;
let timer = null;
let round = 0;
/** Who tells: "active", "standby", or "cut off" from ZooKeeper. */
let source = "active";
/** What only the answer about one cluster has (resilience, skew), by cluster: dearer to work out, so asked less often. */
const details = new Map();
const DETAILS_MS = 30_000;

async function refresh() {
  clearTimeout(timer);
  const mine = ++round;
  try {
    await draw(() => mine === round);
    if (mine !== round) return;
    answeredAt = Date.now();
    node("sign-in").hidden = true;
  } catch (failure) {
    if (mine !== round) return;
    if (!(failure instanceof NoAnswer)) {
      console.error(failure);
      connection("lost", "This page failed: reload it");
      return;
    }
    explain(failure);
  }
  if (!document.hidden) timer = setTimeout(refresh, PAUSE_MS);
}

/** isCurrent: false once a later round has begun; then nothing is drawn any more. */
async function draw(isCurrent) {
  const answer = await get("/readyz", { accepted: [200, 503] });
  const readiness = answer.body.facts ?? answer.body;
  try {
    await drawClusters(readiness, isCurrent);
  } catch (failure) {
    if (failure instanceof NoAnswer) failure.readiness = readiness;
    throw failure;
  }
}

async function drawClusters(readiness, isCurrent) {
  const clusters = await everyOne("/clusters");
  const names = clusters.items.map((cluster) => cluster.name);
  const route = routeOf(location.hash);
  const wanted = route.cluster;
  const cluster = clusters.items.find((item) => item.name === wanted) ?? worst(clusters.items);
  if (!cluster) {
    if (!isCurrent()) return;
    tell(readiness, clusters.ageMs);
    showClusters(node("clusters"), [], null);
    node("cluster").hidden = node("view").hidden = true;
    notice("No clusters yet.", h("p", {}, "Create one with ", h("a", { href: "/docs#/Clusters/createCluster" }, "POST /clusters"), "; it appears here."));
    return;
  }
  const path = `/clusters/${encodeURIComponent(cluster.name)}`;
  const query = `cluster=${encodeURIComponent(cluster.name)}`;
  const view = viewOf(route);
  if (view) {
    await drawView(view, { cluster, path, query, route, readiness, refresh }, clusters, isCurrent);
    return;
  }
  entered = null;
  const [brokers, coordinators, replication, alarms, missing, hour, upgrade, operations, audit] = await Promise.all([
    everyOne(`${path}/brokers`),
    everyOne(`${path}/coordinators`),
    get(`${path}/replication`),
    readiness.role === "active" ? ask(`${path}/alarms?limit=200`) : ELSEWHERE,
    readiness.role === "active" ? ask(`${path}/missing-topics?limit=1000`) : ELSEWHERE,
    readiness.role === "active" ? ask(`${path}/history`) : ELSEWHERE,
    readiness.role === "active" ? ask(`${path}/upgrade`) : ELSEWHERE,
    ask(`/operations?${query}&limit=50`),
    ask(`/audit?${query}&limit=${AUDIT_ROWS}`),
    learnDetails(cluster.name, path),
  ]);
  const { states } = replication.body;
  const isTroubled = replication.body.partitions > states.online;
  await widen(audit, `/audit?${query}`, operations);
  const partitions = isTroubled ? await ask(`${path}/partitions?limit=50`) : null;
  if (!isCurrent()) return;

  node("view").hidden = true;
  if (drawn !== cluster.name) node("lag").querySelector(".body").replaceChildren();
  drawn = cluster.name;
  source = readiness.zookeeper !== "ok" ? "cut off" : readiness.role;
  tell(readiness, replication.ageMs);
  show(node("notices"));
  if (wanted && !names.includes(wanted)) notice(`There is no cluster ${wanted}.`, h("p", {}, `This is ${cluster.name}.`));
  const byId = new Map(brokers.items.flatMap((broker) => [broker, ...broker.workers]).map((broker) => [broker.broker_id, broker]));
  remember(cluster.name, replication.body, Date.now());
  node("cluster").hidden = false;
  node("cluster").classList.remove("stale");
  showClusters(node("clusters"), clusters.items, cluster.name);
  showTabs(node("views"), cluster.name, { view: "" });
  showOverview(node("overview"), cluster, replication.body, details.get(cluster.name)?.body ?? null, alarms, upgrade, source);
  showAlarms(node("alarms"), alarms, cluster.name);
  showMissing(node("missing"), missing, cluster.name);
  showPartitions(node("partitions"), partitions, states, byId, cluster.name);
  const hourBody = node("hour").querySelector(".body");
  show(hourBody, hourOf("cluster", cluster.name, hour, hourBody.clientWidth));
  showBrokers(node("brokers"), brokers.items, replication.body, cluster.name);
  showCoordinators(node("coordinators"), coordinators.items);
  showLag(node("lag"), cluster.name, source === "standby");
  showOperations(node("operations"), operations);
  showAudit(node("audit"), audit, operations);
  const { level, line } = verdictOn(cluster, replication.body, alarms, source);
  document.title = `${["ok", "unknown"].includes(level) ? "" : "! "}${cluster.name}: ${line.replace(/\.$/, "")} · Springtide`;
}

/** One view. It is made anew when another one is entered, and only its body is drawn again after that. */
async function drawView(view, context, clusters, isCurrent) {
  const { cluster, route, readiness } = context;
  const address = hrefOf(cluster.name, route.view, ...(route.id === null ? [] : [route.id]));
  if (entered?.address !== address) {
    entered = { address, context };
    enter(node("view"), view, context);
  }
  node("cluster").hidden = true;
  node("view").hidden = false;
  showClusters(node("clusters"), clusters.items, cluster.name);
  showTabs(node("views"), cluster.name, route);
  document.title = `${view.title(route)} · ${cluster.name} · Springtide`;
  const body = node("view").querySelector(".body");
  let answer;
  try {
    answer = await view.ask(context);
  } catch (failure) {
    if (failure.problem?.status !== 404 || !isCurrent()) throw failure;
    show(body, h("p", { class: "empty" }, `${failure.message}.`));
    tell(readiness, clusters.ageMs);
    show(node("notices"));
    return;
  }
  if (!isCurrent()) return;
  const draw = () => view.draw(body, answer, { ...context, route: routeOf(location.hash) });
  entered.context.redraw = draw;
  draw();
  node("view").classList.remove("stale");
  tell(readiness, clusters.ageMs);
  show(node("notices"));
}

/** One operation may have written all of the newest rows: then what was done before it is asked for, once. */
async function widen(audit, path, operations) {
  const token = audit.body?.next_page_token;
  if (!token || !isOneThing(audit.body.items, operations.body?.items ?? [])) return;
  const older = await ask(`${path}&limit=1000&page_token=${token}`);
  audit.body.items.push(...(older.body?.items ?? []));
}

async function learnDetails(name, path) {
  const known = details.get(name);
  if (known && Date.now() - known.at < DETAILS_MS) return;
  const answer = await ask(path);
  if (answer.body) details.set(name, { at: Date.now(), body: answer.body });
}

function worst(clusters) {
  const rank = { metadata_went_back: 0, critical: 1, degraded: 2, unknown: 3, ok: 4 };
  return [...clusters].sort((a, b) => (rank[a.health] ?? 5) - (rank[b.health] ?? 5))[0];
}

function connection(level, ...text) {
  const place = node("connection");
  place.className = `connection ${level}`;
  show(place, ...text);
}

/** readiness: of /readyz; when it says no, the facts of its problem document. */
function tell(readiness, ageMs) {
  if (readiness.zookeeper !== "ok") connection("lost", "ZooKeeper can't be reached");
  else if (readiness.role === "standby") {
    const active = readiness.active_url;
    connection("standby", `Standby, ${duration(ageMs ?? 0)} old`, active ? [". ", h("a", { href: active }, "To the active one")] : ". No controller is active");
  } else if (readiness.sql !== "ok") connection("standby", `Changes are refused, for the audit can't be written: ${readiness.sql_cause}`);
  else connection("live", readiness.read_only ? "Active, read-only" : "Active", h("span", { class: "epoch" }, ` · epoch ${readiness.controller_epoch}`));
}

function explain(failure) {
  node("cluster").classList.add("stale");
  node("view").classList.add("stale");
  if (failure.kind === "sign-in") {
    connection("standby", "Not signed in");
    node("cluster").hidden = node("view").hidden = true;
    if (node("sign-in").hidden) {
      node("sign-in").hidden = false;
      node("token").focus();
    }
    notice(sessionStorage.length > 0 ? "The token is not valid here." : null);
    return;
  }
  const since = answeredAt === null ? [] : h("p", {}, `What is shown is of ${clock(answeredAt)}, `, ago(new Date(answeredAt).toISOString()), ".");
  if (failure.kind === "unreachable") {
    connection("lost", "No answer");
    notice("The controller does not answer.", since, h("p", {}, "Brokers keep serving without it. This page keeps trying."));
  } else if (failure.readiness && failure.readiness.zookeeper !== "ok") {
    connection("lost", "ZooKeeper can't be reached");
    notice("This controller can't reach ZooKeeper.", since, h("p", {}, "Brokers keep serving under the leaders they have; nothing is decided and nothing can be changed until ZooKeeper is back. This page keeps trying."));
  } else {
    connection("standby", "No answer from an active controller");
    notice(failure.kind === "elsewhere" ? "This controller has not read the clusters yet." : failure.message, since, failure.problem?.hint ? h("p", {}, failure.problem.hint) : []);
  }
}

function notice(title, ...more) {
  show(node("notices"), title ? h("div", { class: "notice" }, h("b", {}, title), ...more) : []);
}

node("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(node("token").value.trim());
  node("token").value = "";
  refresh();
});
for (const input of document.querySelectorAll("input[name=measure]")) {
  input.addEventListener("change", () => drawn && showLag(node("lag"), drawn, source === "standby"));
}
new ResizeObserver(() => drawn && showLag(node("lag"), drawn, source === "standby")).observe(node("lag"));
window.addEventListener("hashchange", () => {
  window.scrollTo(0, 0);
  refresh();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) refresh();
});
setInterval(tickAll, 1_000);
refresh();
