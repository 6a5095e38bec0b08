// Follower lag while the page is open: a line a broker, its replica that is farthest behind. The API tells the
// present only, so what was before the page was opened is not known here.

import { h, s, show } from "./dom.js";
import { clock, count, duration, plural } from "./format.js";

const WINDOW_MS = 15 * 60_000;
const SAMPLES_MAX = 1_000;
const HEIGHT = 220;
const EDGE = { top: 14, right: 96, bottom: 24, left: 72 };
const MEASURES = {
  ms: { text: duration, least: 1_000, name: "time since the farthest replica had everything" },
  records: { text: count, least: 10, name: "records that the farthest replica lacks" },
};

/** What was seen of each cluster, oldest first. */
const seen = new Map();

export function remember(cluster, replication, at) {
  const samples = seen.get(cluster) ?? [];
  const known = replication.brokers.filter((broker) => broker.followed > 0);
  samples.push({ at, brokers: new Map(known.map((broker) => [broker.broker_id, { ms: broker.lag_ms_max ?? undefined, records: broker.lag_records_max }])) });
  while (samples.length > SAMPLES_MAX || samples[0].at < at - WINDOW_MS) samples.shift();
  seen.set(cluster, samples);
}

export function showLag(section, cluster, isStandby) {
  const body = section.querySelector(".body");
  const samples = seen.get(cluster) ?? [];
  const measure = section.querySelector("input[name=measure]:checked").value;
  const ids = [...new Set(samples.flatMap((sample) => [...sample.brokers.keys()]))].sort((a, b) => a - b);
  if (ids.length === 0) {
    show(body, h("p", { class: "empty" }, isStandby ? "Leaders report to the active controller; a standby does not hear of it." : "No leader has reported a follower yet."));
    return;
  }
  if (samples.length < 2) {
    show(body, h("p", { class: "empty" }, "The lines begin now and grow while this page is open."));
    return;
  }
  show(body, chart(samples, ids, measure, Math.max(320, body.clientWidth)), asTable(samples, ids, measure));
}

function chart(samples, ids, measure, width) {
  const { least, text, name } = MEASURES[measure];
  const value = (sample, id) => sample.brokers.get(id)?.[measure];
  const last = samples.at(-1).at;
  const first = Math.min(samples[0].at, last - 60_000);
  const top = ceiling(Math.max(least, ...samples.flatMap((sample) => [...sample.brokers.values()].map((broker) => broker[measure] ?? 0))), measure);
  const right = width - EDGE.right;
  const bottom = HEIGHT - EDGE.bottom;
  const x = (at) => EDGE.left + ((at - first) / (last - first)) * (right - EDGE.left);
  const y = (lag) => bottom - (Math.max(0, lag) / top) * (bottom - EDGE.top);
  const grid = [0, 0.5, 1].map((part) => [
    s("line", { class: "grid", x1: EDGE.left, x2: right, y1: y(part * top), y2: y(part * top) }),
    s("text", { class: "scale", x: EDGE.left - 8, y: y(part * top) + 4, "text-anchor": "end" }, text(part * top)),
  ]);
  const lines = ids.map((id, index) => s("path", { class: `series series-${index % 6}`, d: path(samples, (sample) => value(sample, id), x, y) }));
  const ends = spread(
    ids
      .map((id, index) => ({ id, index, lag: value(samples.at(-1), id) }))
      .filter((end) => end.lag !== undefined)
      .map((end) => ({ ...end, y: y(end.lag) })),
    bottom,
  );
  return s(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": `Follower lag by broker: ${name}. Now: ${ends.map((end) => `broker ${end.id} ${text(end.lag)}`).join(", ")}.` },
    grid,
    s("text", { class: "scale", x: EDGE.left, y: HEIGHT - 6 }, clock(first)),
    s("text", { class: "scale", x: right, y: HEIGHT - 6, "text-anchor": "end" }, "now"),
    lines,
    ends.map((end) => s("text", { class: `end series-${end.index % 6}`, x: right + 8, y: end.y + 4 }, `${end.id}: ${text(end.lag)}`)),
  );
}

/** A line that breaks where a broker was not heard of. */
function path(samples, value, x, y) {
  let d = "";
  let pen = "M";
  for (const sample of samples) {
    const lag = value(sample);
    if (lag === undefined) pen = "M";
    else {
      d += `${pen}${x(sample.at).toFixed(1)} ${y(lag).toFixed(1)}`;
      pen = "L";
    }
  }
  return d;
}

/** Labels at the ends of lines, pushed apart so that each can be read. */
function spread(ends, bottom) {
  const apart = 15;
  ends.sort((a, b) => b.y - a.y);
  let limit = bottom;
  for (const end of ends) {
    end.y = Math.min(end.y, limit);
    limit = end.y - apart;
  }
  return ends;
}

/** The next round number: 1, 2 or 5 times a power of ten; seconds and minutes for times. */
export function ceiling(value, measure) {
  if (measure === "ms" && value > 10_000) {
    const steps = [20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 14_400_000];
    return steps.find((step) => step >= value) ?? Math.ceil(value / 86_400_000) * 86_400_000;
  }
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

/** The same for those who can't see lines: now, and the most while the page was open. */
function asTable(samples, ids, measure) {
  const { text } = MEASURES[measure];
  return h(
    "details",
    { "data-key": "lag" },
    h("summary", {}, `As a table (${plural(samples.length, "sample")})`),
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ["Broker", "Now", "Most"].map((name, index) => h("th", { scope: "col", class: index > 0 ? "number" : null }, name)))),
      h(
        "tbody",
        {},
        ids.map((id) => {
          const values = samples.map((sample) => sample.brokers.get(id)?.[measure]).filter((lag) => lag !== undefined);
          const most = values.length > 0 ? Math.max(...values) : undefined;
          return h("tr", {}, h("th", { scope: "row" }, String(id)), h("td", { class: "number" }, text(samples.at(-1).brokers.get(id)?.[measure])), h("td", { class: "number" }, text(most)));
        }),
      ),
    ),
  );
}
