// Numbers and words as people read them.

const NUMBER = new Intl.NumberFormat("en");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function count(value) {
  return value === null || value === undefined ? "–" : NUMBER.format(value);
}

/** plural(2, "broker") is "2 brokers". */
export function plural(value, word, many = `${word}s`) {
  return `${count(value)} ${value === 1 ? word : many}`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let unit = 0;
  let rest = value;
  while (rest >= 1_024 && unit < UNITS.length - 1) {
    rest /= 1_024;
    unit += 1;
  }
  return `${unit === 0 || rest >= 100 ? Math.round(rest) : rest.toFixed(1)} ${UNITS[unit]}`;
}

/** Bytes in a second. */
export function rate(value) {
  return value === null || value === undefined ? "–" : `${bytes(value)}/s`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${Number((ms / 1_000).toFixed(ms < 10_000 ? 1 : 0))} s`;
  const [large, small, size] = ms < 3_600_000 ? ["min", "s", 60_000] : ["h", "min", 3_600_000];
  const rest = Math.floor(((ms % size) / size) * 60);
  return `${Math.floor(ms / size)} ${large}${rest > 0 ? ` ${rest} ${small}` : ""}`;
}

/** The reader's own time; with the day when it is another. */
export function clock(moment) {
  const at = new Date(moment);
  const time = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString("en-CA")} ${time}`;
}

/** "broker_fenced" is "broker fenced"; a few have better words. */
const WORDS = {
  under_min_isr: "refuses acks=all",
  under_replicated: "under-replicated",
  partition_below_min_isr: "refuses acks=all",
  broker_add: "add brokers",
  topic_delete: "delete topic",
  leader_election: "elect leader",
  assign_partition: "move replicas",
  return_broker: "take broker back",
  alter_configs: "alter settings",
  set_config: "set a setting",
  unset_config: "unset a setting",
  undo_configs: "undo a change of settings",
  elect_leader_preferred: "elect preferred leader",
  elect_leader_unclean: "elect leader uncleanly",
  broker_maintenance: "broker maintenance changed",
  broker_described: "broker described",
  leader_demoted: "leadership handed over",
};

export function words(code) {
  return WORDS[code] ?? String(code).replaceAll("_", " ");
}

export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
