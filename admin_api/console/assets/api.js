// Asks the REST API of the controller that served this page, and no other server.

const TIMEOUT_MS = 8_000;
const PAGES_MAX = 10;
const TOKEN = "springtide.token";

/** Why there is no answer. kind: "unreachable", "elsewhere" (only the active controller knows), "sign-in", or
 * "problem", whose RFC 9457 document is in `problem`. */
export class NoAnswer extends Error {
  constructor(kind, message, problem = null) {
    super(message);
    this.kind = kind;
    this.problem = problem;
  }
}

export function keepToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

/** { body, ageMs, etag }: the answer, how old it may be (null when it is current), and its version. */
export async function get(path, { accepted = [200], timeoutMs = TIMEOUT_MS } = {}) {
  return send(path, { headers: {}, cache: "no-store", signal: AbortSignal.timeout(timeoutMs) }, (status) => accepted.includes(status));
}

/** Asks for a change, or for what it would do. request: { method, path, query, body }. version: the change is refused
 * if this is not the version any more; null: no condition. key: with it, the same change asked for twice is made once. */
export async function change({ method, path, query = {}, body }, { version = null, key = null, isDry }) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (version !== null) headers["If-Match"] = version;
  if (key !== null) headers["Idempotency-Key"] = key;
  const parameters = new URLSearchParams({ ...query, ...(isDry ? { dry_run: "true" } : {}) });
  const address = parameters.size > 0 ? `${path}?${parameters}` : path;
  return send(address, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) }, (status) => status < 300);
}

async function send(path, options, isAccepted) {
  const headers = { Accept: "application/json", ...options.headers };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  let body;
  try {
    response = await fetch(path, { signal: AbortSignal.timeout(TIMEOUT_MS), ...options, headers, redirect: "manual" });
    if (response.type === "opaqueredirect") throw new NoAnswer("elsewhere", "only the active controller knows");
    body = await response.json();
  } catch (error) {
    if (error instanceof NoAnswer) throw error;
    throw new NoAnswer("unreachable", "the controller does not answer");
  }
  if (response.status === 401) throw new NoAnswer("sign-in", body.detail, body);
  if (!isAccepted(response.status)) throw new NoAnswer("problem", body.detail ?? body.title, body);
  const age = response.headers.get("Data-Age-Ms");
  return { body, ageMs: age === null ? null : Number(age), etag: response.headers.get("ETag") };
}

/** All pages of a list, up to a bound. */
export async function everyOne(path) {
  const items = [];
  let token = null;
  let ageMs = null;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const answer = await get(`${path}?limit=1000${token ? `&page_token=${token}` : ""}`);
    items.push(...answer.body.items);
    ageMs = answer.ageMs;
    token = answer.body.next_page_token;
    if (!token) break;
  }
  return { items, ageMs };
}

/** The same as a value: { body, ageMs } or { failure }. Sections fail one by one. */
export async function ask(path) {
  try {
    return await get(path);
  } catch (failure) {
    if (failure instanceof NoAnswer && failure.kind !== "sign-in") return { failure };
    throw failure;
  }
}
