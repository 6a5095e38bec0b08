// What an operator does from the page. Every action is asked for twice: as a dry run, whose answer is shown, and,
// when the operator agrees, for good. Roles and refusals are the REST interface's own.

import { NoAnswer, change, get } from "./api.js";
import { h } from "./dom.js";
import { capital } from "./format.js";
import { hrefOf } from "./route.js";
import { outcomeOf } from "./outcomes.js";

/** action: { title, fields, request(values) → { method, path, query, body }, versionOf, before, learn }. fields: [{ name,
 * text, type, value, options, needed, hint, mustBe: the only text that is taken, isFor(values): whether the field is
 * asked for }]. versionOf: the address whose version the change is bound to, so that another
 * person's change in between refuses it; with followsVersion to the newest, as of an operation that goes on. before: a text on what is there now;
 * learn() → more of it, once it is known. */
export function openAction(action, context) {
  const dialog = h("dialog", { class: "action", "aria-labelledby": "action-title" });
  const fields = [...(action.fields ?? []), { name: "reason", text: "Reason", hint: "kept in the audit" }].map((field) => [field, inputOf(field)]);
  const told = h("div", { class: "told", role: "status" });
  const look = h("button", { type: "submit" }, "Show what it would do");
  const go = h("button", { type: "button", hidden: true }, "Do it");
  const close = h("button", { type: "button", class: "plain-button" }, "Close");
  const labels = fields.map(([field, input]) => labelled(field, input));
  const learnt = action.learn ? h("div", { class: "learnt" }, h("p", { class: "quiet" }, "Looking.")) : null;
  const form = h("form", {}, h("h2", { id: "action-title" }, action.title), action.before ? h("p", { class: "quiet" }, action.before) : null, learnt, labels, told, h("p", { class: "buttons" }, look, go, close));
  dialog.append(form);
  document.body.append(dialog);
  /** What the dry run was asked with; the change itself is asked with the same. */
  let shown = null;

  const values = () => Object.fromEntries(fields.map(([field, input]) => [field.name, valueOf(field, input)]));
  /** A field that is not asked for is neither seen nor checked. */
  const choose = () => {
    const now = values();
    fields.forEach(([field, input], index) => {
      labels[index].hidden = input.disabled = field.isFor !== undefined && !field.isFor(now);
    });
  };
  const forget = () => {
    choose();
    shown = null;
    go.hidden = true;
    told.replaceChildren();
  };
  const busy = (is) => {
    look.disabled = go.disabled = is;
  };
  const tell = (...children) => told.replaceChildren(...children.flat(Infinity).filter((child) => child));

  form.addEventListener("input", forget);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    forget();
    busy(true);
    try {
      const { reason, ...asked } = values();
      const request = action.request(asked);
      if (reason !== "") Object.assign(request.body ?? (request.query ??= {}), { reason });
      const version = action.versionOf ? (await get(action.versionOf)).etag : null;
      const answer = await change(request, { version, isDry: true });
      shown = { request, version, key: crypto.getRandomValues(new Uint32Array(4)).join("-") };
      tell(h("h3", {}, "It would"), outcomeOf(answer, request));
      go.hidden = false;
    } catch (failure) {
      tell(refusal(failure, context));
    }
    busy(false);
    if (!go.hidden) go.focus();
  });
  go.addEventListener("click", async () => {
    busy(true);
    try {
      const version = action.followsVersion ? (await get(action.versionOf)).etag : shown.version;
      const { body } = await change(shown.request, { version, key: shown.key, isDry: false });
      go.hidden = look.hidden = true;
      tell(done(body, context));
      close.focus();
      context.refresh();
    } catch (failure) {
      tell(refusal(failure, context));
      // Without an answer it is not known whether it was made: asked again with the same key, it is made once.
      go.hidden = failure.kind !== "unreachable";
    }
    busy(false);
  });
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  action.learn?.().then((found) => learnt.replaceChildren(found));
  for (const [field, input] of fields) {
    if (field.mustBe !== undefined) input.addEventListener("input", () => input.setCustomValidity(input.value.trim() === field.mustBe ? "" : `Type ${field.mustBe}`));
  }
  choose();
  dialog.showModal();
  (fields[0][1] ?? look).focus();
}

/** A button that opens an action. action() may first ask for what its form shows. */
export function actionButton(text, action, context) {
  const button = h("button", { type: "button", class: "small" }, text);
  let isAsking = false;
  button.addEventListener("click", async () => {
    if (isAsking) return;
    isAsking = true;
    try {
      openAction(await action(), context);
    } catch (failure) {
      if (!(failure instanceof NoAnswer)) throw failure;
      context.refresh(); // which says why there is no answer
    } finally {
      isAsking = false;
    }
  });
  return button;
}

/** A password may begin or end with a space. */
function valueOf(field, input) {
  if (field.type === "checkbox") return input.checked;
  return field.type === "password" ? input.value : input.value.trim();
}

function inputOf(field) {
  const attributes = { id: `action-${field.name}`, required: field.needed, min: field.min, step: field.step, type: field.options ? null : (field.type ?? "text"), autocomplete: field.type === "password" ? "new-password" : "off", spellcheck: "false", maxlength: field.type ? null : 1_000 };
  const input = field.options ? h("select", attributes, field.options.map(([value, text]) => h("option", { value }, text))) : h("input", attributes);
  if (field.type === "checkbox") input.checked = field.value === true;
  else if (field.value !== undefined) input.value = field.value;
  return input;
}

function labelled(field, input) {
  return h("label", { class: `field ${field.type === "checkbox" ? "check" : ""}` }, field.text, input, field.hint ? h("span", { class: "quiet" }, field.hint) : null);
}

function done(body, context) {
  if ("delivered" in body && "detail" in body) return h("p", { class: body.delivered ? "done" : "refused" }, body.delivered ? `The receiver took it (${body.status}).` : `${capital(body.detail)}.`);
  if (body.secret) return h("p", { class: "done" }, "Done. Its secret is shown this once: ", h("code", {}, body.secret));
  const isOperation = typeof body.id === "string" && body.id.startsWith("op_");
  return h("p", { class: "done" }, "Done. ", isOperation ? h("a", { href: hrefOf(context.cluster.name, "operations", body.id) }, "Follow the operation") : null);
}

/** A refusal in the interface's own words. */
function refusal(failure, context) {
  if (!(failure instanceof NoAnswer)) throw failure;
  if (failure.kind === "elsewhere") {
    const active = context.readiness.active_url;
    return h("p", { class: "refused" }, "Changes go to the active controller", active ? [": ", h("a", { href: active }, active)] : ", and there is none now", ".");
  }
  const errors = (failure.problem?.errors ?? []).map((error) => h("li", {}, error.message));
  return h("div", { class: "refused" }, h("p", {}, `${capital(failure.message)}.`), errors.length > 0 ? h("ul", {}, errors) : null, failure.problem?.hint ? h("p", { class: "quiet" }, failure.problem.hint) : null);
}
