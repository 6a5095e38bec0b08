// The changes of users, ACLs and quotas that the page offers: their fields, and the request that each becomes.

export const RESOURCE_TYPES = ["topic", "group", "cluster", "transactional_id", "delegation_token", "user"];
export const OPERATIONS = ["read", "write", "create", "delete", "alter", "describe", "describe_configs", "alter_configs", "cluster_action", "idempotent_write", "create_tokens", "describe_tokens", "two_phase_commit"];
const CLUSTER = "kafka-cluster";
const MECHANISMS = [["SCRAM-SHA-256,SCRAM-SHA-512", "both"], ["SCRAM-SHA-512", "SCRAM-SHA-512 only"], ["SCRAM-SHA-256", "SCRAM-SHA-256 only"]];
const RATES = [
  ["producer_byte_rate", "Written bytes per second"],
  ["consumer_byte_rate", "Read bytes per second"],
  ["request_percentage", "Percent of a broker's threads"],
  ["controller_mutation_rate", "Partitions created or deleted per second"],
  ["connection_creation_rate", "New connections per second, of an address"],
];

/** pairs(["describe_configs"]) is [["describe_configs", "describe configs"]], as a choice takes it. */
export function pairs(codes) {
  return codes.map((code) => [code, code.replaceAll("_", " ")]);
}

/** name: null: of a user that is named in the form. */
export function setPassword({ path }, name = null) {
  return {
    title: name === null ? "Add a user" : `Set the password of ${name}`,
    before: name === null ? "A user without ACLs may do nothing while ACLs decide." : "Its connections are closed within seconds: it logs in again by the new password.",
    fields: [
      ...(name === null ? [{ name: "user", text: "Name", needed: true, hint: "ACLs call it User: and the name" }] : []),
      { name: "password", text: "Password", type: "password", needed: true, hint: "only a salted hash of it is kept" },
      { name: "mechanisms", text: "It may log in by", options: MECHANISMS },
    ],
    versionOf: name === null ? undefined : userAt(path, name),
    request: ({ user = name, password, mechanisms }) => ({ method: "PUT", path: userAt(path, user), body: { password, mechanisms: mechanisms.split(",") } }),
  };
}

export function deleteUser({ path }, name) {
  return { title: `Delete user ${name}`, before: "Its connections are closed within seconds. Its ACLs and quotas stay.", versionOf: userAt(path, name), request: () => ({ method: "DELETE", path: userAt(path, name) }) };
}

function userAt(path, name) {
  return `${path}/users/${encodeURIComponent(name)}`;
}

export function addAcls({ path, route }) {
  const isNamed = ({ resource_type: type }) => type !== "cluster";
  const known = (name) => route.query.get(name) ?? "";
  return {
    title: "Add ACLs",
    fields: [
      { name: "principal", text: "Principal", needed: true, value: known("principal"), hint: "User: and a name; User:*: each user" },
      { name: "permission", text: "It is", options: [["allow", "allowed"], ["deny", "denied: this is stronger than any ACL that allows"]] },
      { name: "operations", text: "Operations", needed: true, hint: `with a comma between them: ${[...OPERATIONS.slice(0, 8), "all"].join(", ")}` },
      { name: "resource_type", text: "On", options: pairs(RESOURCE_TYPES) },
      { name: "resource_name", text: "Name", needed: true, value: known("resource_name"), hint: "*: each", isFor: isNamed },
      { name: "prefixed", text: "Each whose name begins with it", type: "checkbox", isFor: isNamed },
      { name: "host", text: "From the address", value: "*", needed: true, hint: "*: each" },
    ],
    request({ operations, prefixed, resource_type: type, resource_name: name, ...about }) {
      const on = type === "cluster" ? { resource_name: CLUSTER } : { resource_name: name, pattern_type: prefixed ? "prefixed" : "literal" };
      const asked = operations.toLowerCase().split(",").map((text) => text.trim().replaceAll(" ", "_")).filter((text) => text !== "");
      return { method: "POST", path: `${path}/acls`, body: { bindings: asked.map((operation) => ({ ...about, resource_type: type, ...on, operation })) } };
    },
  };
}

/** wanted: what the ACLs have in common, by the interface's names. what: the title's words for them. */
export function removeAcls({ path }, wanted, what) {
  return { title: `Remove ${what}`, request: () => ({ method: "POST", path: `${path}/acls:delete`, body: { ...wanted } }) };
}

/** item: the entity with its quotas; null: one that is named in the form. */
export function setQuotas({ path }, item = null) {
  const before = item?.quotas ?? {};
  const named = item === null ? [{ name: "user", text: "User", hint: "<default>: each that has none of its own" }, { name: "client_id", text: "Client id", hint: "alone, or together with a user" }, { name: "ip", text: "Address", hint: "stands alone" }] : [];
  return {
    title: item === null ? "Set quotas" : `Change the quotas of ${entityOf(item)}`,
    fields: [...named, ...RATES.map(([name, text]) => ({ name, text, type: "number", min: 0, step: "any", value: before[name] ?? "", hint: before[name] === undefined ? "empty: none" : "empty: unset" }))],
    request(values) {
      const entity = Object.entries(item ?? values).filter(([name, value]) => ["user", "client_id", "ip"].includes(name) && value);
      const quotas = RATES.map(([name]) => [name, values[name] === "" ? null : Number(values[name])]).filter(([name, value]) => value !== null || name in before);
      return { method: "POST", path: `${path}/quotas:alter`, body: { entities: [{ ...Object.fromEntries(entity), quotas: Object.fromEntries(quotas) }] } };
    },
  };
}

/** entityOf({ user: "billing", client_id: null, ip: null }) is "user billing". */
export function entityOf({ user, client_id: client, ip }) {
  const part = (kind, name) => (name === null ? [] : [name === "<default>" ? `each other ${kind}` : `${kind} ${name}`]);
  return [...part("user", user), ...part("client id", client), ...part("address", ip)].join(", ");
}

/** aclText(binding) is "User:billing is allowed read on each topic that begins with payments". */
export function aclText(acl) {
  const who = acl.principal === "User:*" ? "each user" : acl.principal;
  const what = acl.operation === "all" ? "everything" : acl.operation.replaceAll("_", " ");
  return `${who} is ${acl.permission === "allow" ? "allowed" : "denied"} ${what} on ${resourceOf(acl)}${acl.host === "*" ? "" : `, from ${acl.host}`}`;
}

export function resourceOf({ resource_type: type, resource_name: name, pattern_type: pattern }) {
  const kind = type.replaceAll("_", " ");
  if (type === "cluster") return "the cluster";
  if (pattern === "prefixed") return `each ${kind} that begins with ${name}`;
  return name === "*" ? `each ${kind}` : `${kind} ${name}`;
}
