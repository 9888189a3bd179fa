/** A fault rule as the form has it, and as the control API reads it. */

import { visible } from "../data/names.ts";

export interface Field {
  name: string;
  label: string;
  kind: "number" | "text" | "choice" | "flag" | "json";
  options?: readonly string[];
  value: string;
  required?: boolean;
}

/** The fields of each action beside the choice of the action itself; the first one is the key of the action. */
export const ACTIONS: Record<string, { label: string; fields: readonly Field[] }> = {
  error: { label: "answer with an error", fields: [] },
  delay_ms: {
    label: "delay",
    fields: [
      { name: "delay_ms", label: "Milliseconds", kind: "number", value: "1000", required: true },
      { name: "jitter_ms", label: "Random milliseconds in addition", kind: "number", value: "" },
      { name: "when", label: "When", kind: "choice", options: ["before", "after"], value: "before" },
    ],
  },
  hold: { label: "hold until released", fields: [{ name: "when", label: "When", kind: "choice", options: ["before", "after"], value: "before" }] },
  disconnect: {
    label: "close the connection",
    fields: [
      { name: "disconnect", label: "When", kind: "choice", options: ["before", "after", "mid-response"], value: "before" },
      { name: "reset", label: "By a TCP reset", kind: "flag", value: "" },
    ],
  },
  no_response: { label: "never respond", fields: [{ name: "when", label: "When", kind: "choice", options: ["before", "after"], value: "before" }] },
  throttle_ms: { label: "throttle the client", fields: [{ name: "throttle_ms", label: "Milliseconds", kind: "number", value: "1000", required: true }] },
  bytes_per_second: {
    label: "send or read slowly",
    fields: [
      { name: "bytes_per_second", label: "Bytes per second", kind: "number", value: "1000", required: true },
      { name: "of", label: "What", kind: "choice", options: ["response", "request"], value: "response" },
    ],
  },
  respond: { label: "answer with a body", fields: [{ name: "respond", label: "Body (JSON)", kind: "json", value: "{}", required: true }] },
  malform: { label: "malform the response", fields: [] },
  evict: { label: "evict the member", fields: [] },
  fail_tls: { label: "fail the TLS handshake", fields: [] },
};

/** Actions whose value is `true`. */
const SWITCHES = new Set(["hold", "no_response", "evict", "fail_tls"]);
/** Conditions that are numbers in JSON. */
export const NUMBERS = new Set(["broker", "partition"]);

/** What the form contains; empty texts are left out of the rule. */
export interface Draft {
  name: string;
  on: "request" | "connect";
  api: string;
  match: Record<string, string>;
  action: string;
  error: string;
  malform: string;
  fields: Record<string, string>;
  occurrence: { skip: string; every: string; probability: string; times: string };
}

export const NEW: Draft = {
  name: "",
  on: "request",
  api: "Heartbeat",
  match: {},
  action: "error",
  error: "",
  malform: "",
  fields: {},
  occurrence: { skip: "", every: "", probability: "", times: "1" },
};

/** Return what differs in a draft from a new one as text for a link; "" if nothing does. */
export function linkOf(draft: Draft): string {
  const changed = Object.entries(draft).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(NEW[key as keyof Draft]));
  return changed.length ? JSON.stringify(Object.fromEntries(changed)) : "";
}

/** Return the draft of a link; a new one for a text that no draft has. */
export function draftOf(link: string): Draft {
  let given: unknown;
  try {
    given = JSON.parse(link || "{}");
  } catch {
    return NEW;
  }
  if (!isTexts(given, 2)) return NEW;
  const known = Object.entries(given as object).filter(([key, value]) => Object.hasOwn(NEW, key) && typeof value === typeof NEW[key as keyof Draft]);
  const draft = { ...NEW, ...Object.fromEntries(known) } as Draft;
  return { ...draft, occurrence: { ...NEW.occurrence, ...draft.occurrence } };
}

/** Return whether a value is an object whose values are texts, or such objects: `depth` of them in each other. */
function isTexts(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value) || !depth) return false;
  return Object.values(value).every((each) => typeof each === "string" || isTexts(each, depth - 1));
}

/** Return the JSON form of a draft. Raises: SyntaxError if a body is not JSON. */
export function ruleOf(draft: Draft): Record<string, unknown> {
  const match: Record<string, unknown> = draft.on === "connect" ? { on: "connect" } : draft.api ? { api: draft.api } : {};
  for (const [key, value] of Object.entries(draft.match)) if (value !== "") match[key] = NUMBERS.has(key) ? Number(value) : value;
  return {
    ...(draft.name && { name: draft.name }),
    match,
    occurrence: occurrenceOf(draft.occurrence),
    action: actionOf(draft),
  };
}

function actionOf(draft: Draft): Record<string, unknown> {
  const action: Record<string, unknown> = {};
  if (draft.action === "error") action["error"] = draft.error;
  if (draft.action === "malform") action["malform"] = draft.malform;
  if (SWITCHES.has(draft.action)) action[draft.action] = true;
  for (const field of ACTIONS[draft.action]?.fields ?? []) {
    const value = draft.fields[field.name] ?? field.value;
    if (value === "" || (value === field.value && !field.required && field.name !== draft.action)) continue;
    action[field.name] = field.kind === "number" ? Number(value) : field.kind === "flag" ? true : field.kind === "json" ? JSON.parse(value) : value;
  }
  if (draft.action === "malform") for (const [key, value] of Object.entries(draft.fields)) if (value !== "") action[key] = Number.isNaN(Number(value)) ? value : Number(value);
  return action;
}

function occurrenceOf({ skip, every, probability, times }: Draft["occurrence"]): Record<string, unknown> {
  const count = times.trim();
  return {
    ...(skip && { skip: Number(skip) }),
    ...(every && { every: Number(every) }),
    ...(probability && { probability: Number(probability) }),
    ...(count && { times: /^\d+$/.test(count) ? Number(count) : count }),
  };
}

/** Return the conditions and the action of a rule in words. */
export function inWords(rule: { match?: Record<string, unknown>; action?: Record<string, unknown>; occurrence?: Record<string, unknown> }): string {
  const { on, api, ...others } = rule.match ?? {};
  const subject = on === "connect" ? "new connections" : api ? [api].flat().join(", ") : "every API";
  const where = Object.entries(others).map(([key, value]) => `${key} ${String(value)}`);
  const what = Object.entries(rule.action ?? {}).map(([key, value]) => (value === true ? key.replace("_", " ") : `${key.replace("_", " ")} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`));
  const often = Object.entries(rule.occurrence ?? {}).map(([key, value]) => `${key} ${String(value)}`);
  return visible(`${[subject, ...where].join(", ")} → ${what.join(", ")}${often.length ? ` (${often.join(", ")})` : ""}`);
}
