// Where alarms are told, how that fares, and which alarms are silenced.

import { actionButton } from "./actions.js";
import { everyOne } from "./api.js";
import { ago, h, show } from "./dom.js";
import { capital, count, words } from "./format.js";
import { badge, table } from "./tables.js";

const STATES = { ok: "active", failing: "failed", off: "failed", disabled: "fenced" };
const DAY_MINUTES = 1_440;

export const webhooksView = {
  title: () => "Webhooks",
  tools: (context) => [actionButton("Add a webhook", () => putWebhook(context), context), actionButton("Add a silence", () => addSilence(context), context)],
  async ask({ path }) {
    const [webhooks, silences] = await Promise.all([everyOne(`${path}/webhooks`), everyOne(`${path}/silences`)]);
    return { webhooks: webhooks.items, silences: silences.items };
  },
  draw(body, { webhooks, silences }, context) {
    show(
      body,
      webhooks.length === 0 ? h("p", { class: "empty" }, "No URL is told alarms. Only admins add one, because the controller connects to it.") : webhookTable(webhooks, context),
      h("h2", {}, "Silences"),
      silences.length === 0 ? h("p", { class: "empty" }, "No alarm is silenced.") : silenceTable(silences, context),
    );
  },
};

function webhookTable(webhooks, context) {
  return table(
    "Webhooks",
    [["Webhook"], ["State"], ["Waiting", "number"], ["Given up", "number"], ["Last"], ["Why", "why"], [""]],
    webhooks.map((one) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, h("b", {}, one.name), h("span", { class: "quiet" }, `${one.host ?? "?"} · ${one.format}`)),
        h("td", {}, badge(STATES[one.state], one.state)),
        h("td", { class: "number" }, count(one.waiting)),
        h("td", { class: "number" }, count(one.dropped)),
        h("td", {}, one.delivered_at === null ? "nothing taken yet" : ["taken ", ago(one.delivered_at)]),
        h("td", { class: "why" }, one.last_error === null ? "" : `${capital(one.last_error)}.`),
        h(
          "td",
          { class: "why" },
          rowButton("Test", one.name, () => testWebhook(context, one.name), context),
          rowButton("Change", one.name, () => putWebhook(context, one), context),
          rowButton("Delete", one.name, () => deleteWebhook(context, one.name), context),
        ),
      ),
    ),
  );
}

function silenceTable(silences, context) {
  return table(
    "Silences",
    [["Alarms"], ["Until"], ["Reason", "why"], [""]],
    silences.map((one) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, silencedBy(one)),
        h("td", {}, h("time", { datetime: one.until }, one.until.slice(0, 16).replace("T", " "), " UTC")),
        h("td", { class: "why" }, one.reason, h("span", { class: "quiet" }, one.actor)),
        h("td", {}, rowButton("End", silencedBy(one), () => endSilence(context, one), context)),
      ),
    ),
  );
}

/** What a silence is about, in words. */
export function silencedBy(silence) {
  const topic = silence.topic === null ? null : `topic ${silence.topic}${silence.partition === null ? "" : `-${silence.partition}`}`;
  const parts = [silence.code === null ? "all" : words(silence.code), topic, silence.broker_id === null ? null : `broker ${silence.broker_id}`, silence.group_id === null ? null : `group ${silence.group_id}`, silence.transactional_id === null ? null : `transaction ${silence.transactional_id}`, silence.producer_id === null ? null : `producer ${silence.producer_id}`];
  return capital(parts.filter((part) => part !== null).join(", "));
}

/** Buttons of rows have one text; their names say whose they are. */
function rowButton(text, name, action, context) {
  const button = actionButton(text, action, context);
  button.setAttribute("aria-label", `${text} ${name}`);
  return button;
}

/** known: the webhook as it is; null: of a new one. */
function putWebhook({ path }, known = null) {
  const at = (name) => `${path}/webhooks/${encodeURIComponent(name)}`;
  const seconds = (name, text, value) => ({ name, text, type: "number", min: 0, value, needed: true, hint: "seconds" });
  return {
    title: known === null ? "Add a webhook" : `Change webhook ${known.name}`,
    before: "It is told when alarms begin, change and end. Its URL and its secret are not shown again.",
    fields: [
      ...(known === null ? [{ name: "name", text: "Name", needed: true }] : []),
      { name: "url", text: "URL", type: "url", needed: known === null, hint: known === null ? "http or https" : "empty: it stays" },
      { name: "format", text: "Messages are", options: known?.format === "slack" ? [["slack", "Slack's"], ["json", "JSON"]] : [["json", "JSON"], ["slack", "Slack's"]] },
      seconds("wait_s", "Tell alarms that last for", known?.wait_s ?? 10),
      seconds("settle_s", "An alarm ends when gone for", known?.settle_s ?? 60),
      ...(known === null ? [] : [{ name: "new_secret", text: "Make a new secret", type: "checkbox" }]),
      { name: "enabled", text: "Tell it alarms", type: "checkbox", value: known?.enabled ?? true },
    ],
    versionOf: known === null ? undefined : at(known.name),
    request: ({ name = known?.name, url, wait_s: wait, settle_s: settle, ...rest }) => ({
      method: "PUT",
      path: at(name),
      body: { ...rest, wait_s: Number(wait), settle_s: Number(settle), ...(url === "" ? {} : { url }) },
    }),
  };
}

function testWebhook({ path }, name) {
  return { title: `Send ${name} a sample`, before: "One message is sent at once, and its event is test.", request: () => ({ method: "POST", path: `${path}/webhooks/${encodeURIComponent(name)}:test`, body: {} }) };
}

function deleteWebhook({ path }, name) {
  const own = `${path}/webhooks/${encodeURIComponent(name)}`;
  return { title: `Delete webhook ${name}`, before: "Messages that wait for it go, too.", versionOf: own, request: () => ({ method: "DELETE", path: own }) };
}

function addSilence({ path }) {
  return {
    title: "Add a silence",
    before: "Webhooks are told nothing of these alarms for a time. They are shown here all the same. A reason is needed.",
    fields: [
      { name: "code", text: "Kind of alarm", hint: "such as broker_fenced; empty: any" },
      { name: "topic", text: "Topic", hint: "empty: any" },
      { name: "broker_id", text: "Broker", type: "number", min: 0, hint: "empty: any" },
      { name: "group_id", text: "Group", hint: "empty: any" },
      { name: "transactional_id", text: "Transactional id", hint: "empty: any" },
      { name: "producer_id", text: "Producer id", type: "number", min: 0, hint: "empty: any" },
      { name: "minutes", text: "For so many minutes", type: "number", min: 1, max: 30 * DAY_MINUTES, value: 60, needed: true },
    ],
    request: ({ broker_id: broker, producer_id: producer, minutes, ...named }) => ({
      method: "POST",
      path: `${path}/silences`,
      body: {
        ...Object.fromEntries(Object.entries(named).filter(([, value]) => value !== "")),
        ...(broker === "" ? {} : { broker_id: Number(broker) }),
        ...(producer === "" ? {} : { producer_id: Number(producer) }),
        minutes: Number(minutes),
      },
    }),
  };
}

function endSilence({ path }, silence) {
  return { title: `End the silence: ${silencedBy(silence)}`, before: "What is up is told to webhooks then.", request: () => ({ method: "DELETE", path: `${path}/silences/${encodeURIComponent(silence.id)}` }) };
}
