/** A form for a fault rule. It offers only what the chosen API has. */

import { effect, signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { ask, type Detail, Problem } from "../data/api.ts";
import { apis } from "../data/catalogue.ts";
import { place, setOptions } from "../data/place.ts";
import type { Api, Form } from "../data/types.ts";
import { ApiOptions } from "../parts/ApiOptions.tsx";
import { notify } from "../parts/notices.tsx";
import { ACTIONS, type Draft, draftOf, type Field, linkOf, NEW, NUMBERS, ruleOf } from "./rule.ts";

const draft = signal<Draft>(NEW);
const problems = signal<Detail[]>([]);

function change(next: Partial<Draft>): void {
  draft.value = { ...draft.value, ...next };
  setOptions({ rule: linkOf(draft.value) });
}

/** Keep form and address the same: a link has the rule, and the form keeps its rule while another view is shown. */
function followLink(): () => void {
  return effect(() => {
    const { view, options } = place.value;
    if (view !== "faults") return;
    const { rule = "" } = options;
    const own = linkOf(draft.peek());
    if (!rule && own) queueMicrotask(() => setOptions({ rule: own }));
    else if (rule !== own) draft.value = draftOf(rule);
  });
}

export function FaultForm() {
  useLayoutEffect(followLink, []);
  if (!apis.value.items.length) return <section class="panel"><h3>New rule</h3></section>; // a select cannot show a choice that it lacks
  return (
    <form class="panel rule" aria-labelledby="new-rule" onSubmit={(event) => void submit(event)}>
      <h3 id="new-rule">New rule</h3>
      <Subject />
      <Conditions />
      <Action />
      <Occurrence />
      <Problems />
      <Preview />
      <button class="main">Add the rule</button>
    </form>
  );
}

async function submit(event: Event): Promise<void> {
  event.preventDefault();
  problems.value = [];
  try {
    const rule = await ask<{ name: string }>("POST", "/v1/faults", ruleOf(draft.value));
    notify(`${rule.name} is added`);
    change({ name: "" });
  } catch (error) {
    if (error instanceof Problem && error.errors.length) problems.value = error.errors;
    else problems.value = [{ path: "", detail: error instanceof Error ? error.message : String(error) }];
  }
}

/** What the chosen API has; without an API, what any API has. */
function chosen(): Pick<Api, "match" | "actions" | "errors" | "malform"> {
  const { items, connect } = apis.value;
  if (draft.value.on === "connect") return { match: connect?.match ?? [], actions: connect?.actions ?? [], errors: [], malform: [] };
  const found = items.find((each) => each.name === draft.value.api);
  if (found) return found;
  const union = (pick: (api: Api) => string[]) => [...new Set(items.flatMap(pick))];
  return { match: union((each) => each.match), actions: union((each) => each.actions), errors: [], malform: items[0]?.malform ?? [] };
}

function Subject() {
  const { on, api, name } = draft.value;
  return (
    <div class="fields">
      <label>
        Requests of
        <select value={on === "connect" ? "connect" : api} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="connect">new connections</option>
          <option value="">every API that fits</option>
          <ApiOptions />
        </select>
      </label>
      <label>
        Name of the rule
        <input value={name} placeholder="generated" onInput={(event) => change({ name: event.currentTarget.value })} />
      </label>
    </div>
  );
}

function choose(value: string): void {
  change(value === "connect" ? { on: "connect", api: "", match: {} } : { on: "request", api: value });
  const { actions, match } = chosen();
  const { action } = draft.value;
  const kept = Object.entries(draft.value.match).filter(([key]) => match.includes(key));
  change({ action: actions.includes(action) || !actions[0] ? action : actions[0], match: Object.fromEntries(kept), fields: {} });
}

function Conditions() {
  const { match } = draft.value;
  const possible = chosen().match.filter((key) => key !== "api" && key !== "on");
  const set = (key: string, value: string | null) => {
    const next = { ...draft.value.match };
    if (value === null) delete next[key];
    else next[key] = value;
    change({ match: next });
  };
  return (
    <fieldset>
      <legend>Only where</legend>
      <div class="fields">
        {Object.entries(match).map(([key, value]) => (
          <label key={key}>
            {key}
            <span class="with-button">
              <input value={value} inputMode={NUMBERS.has(key) ? "numeric" : undefined} placeholder={NUMBERS.has(key) ? "number" : "* and ? match any text"} onInput={(event) => set(key, event.currentTarget.value)} />
              <button type="button" aria-label={`Remove the condition ${key}`} onClick={() => set(key, null)}>
                ×
              </button>
            </span>
          </label>
        ))}
        <label>
          Add a condition
          <select value="" onChange={(event) => event.currentTarget.value && set(event.currentTarget.value, "")}>
            <option value="">{Object.keys(match).length ? "and …" : "none: all of them"}</option>
            {possible
              .filter((key) => !(key in match))
              .map((key) => (
                <option key={key} value={key}>
                  {key}
                </option>
              ))}
          </select>
        </label>
      </div>
    </fieldset>
  );
}

function Action() {
  const { action, error, malform, fields } = draft.value;
  const { actions, errors, malform: forms } = chosen();
  const set = (name: string) => (value: string) => change({ fields: { ...draft.value.fields, [name]: value } });
  const form = forms.find((each) => each.name === malform);
  const own: readonly Field[] = action === "malform" ? parametersOf(form) : (ACTIONS[action]?.fields ?? []);
  return (
    <fieldset>
      <legend>Then</legend>
      <div class="fields">
        <label>
          Action
          <select value={action} onChange={(event) => change({ action: event.currentTarget.value, fields: {} })}>
            {actions.map((each) => (
              <option key={each} value={each}>
                {ACTIONS[each]?.label ?? each}
              </option>
            ))}
          </select>
        </label>
        {action === "error" && <ErrorChoice errors={errors} value={error} />}
        {action === "malform" && (
          <label>
            Form
            <select value={malform} required onChange={(event) => change({ malform: event.currentTarget.value, fields: {} })}>
              <option value="">choose…</option>
              {forms.map((each) => (
                <option key={each.name}>{each.name}</option>
              ))}
            </select>
          </label>
        )}
        {own.map((field) => (
          <Input key={field.name} field={field} value={fields[field.name] ?? field.value} onChange={set(field.name)} />
        ))}
      </div>
    </fieldset>
  );
}

function parametersOf(form: Form | undefined): Field[] {
  return Object.entries(form?.parameters ?? {}).map(([name, { type, possible, default: usual }]) => {
    if (type === "field") return { name, label: name, kind: "choice", options: ["", ...(possible ?? [])], value: "" };
    return { name, label: `${name} (${String(usual)})`, kind: "number", value: "" };
  });
}

function ErrorChoice({ errors, value }: { errors: readonly string[]; value: string }) {
  const others = apis.value.errors.filter((each) => !errors.includes(each));
  const options = (names: readonly string[]) => names.map((each) => <option key={each}>{each}</option>);
  return (
    <label>
      Error
      <select value={value} required onChange={(event) => change({ error: event.currentTarget.value })}>
        <option value="">choose…</option>
        {errors.length > 0 && <optgroup label="Kafka returns it">{options(errors)}</optgroup>}
        <optgroup label={errors.length ? "Kafka does not return it" : "All"}>{options(others)}</optgroup>
      </select>
    </label>
  );
}

function Input({ field, value, onChange }: { field: Field; value: string; onChange: (value: string) => void }) {
  const { label, kind, options, required = false } = field;
  if (kind === "flag")
    return (
      <label class="check">
        <input type="checkbox" checked={value !== ""} onChange={(event) => onChange(event.currentTarget.checked ? "yes" : "")} /> {label}
      </label>
    );
  if (kind === "choice")
    return (
      <label>
        {label}
        <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          {options?.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
    );
  if (kind === "json")
    return (
      <label class="wide">
        {label}
        <textarea rows={4} required={required} value={value} onInput={(event) => onChange(event.currentTarget.value)} />
      </label>
    );
  return (
    <label>
      {label}
      {kind === "number" ? (
        <input type="number" required={required} value={value} onInput={(event) => onChange(event.currentTarget.value)} />
      ) : (
        <input required={required} value={value} onInput={(event) => onChange(event.currentTarget.value)} />
      )}
    </label>
  );
}

function Occurrence() {
  const { occurrence } = draft.value;
  const input = (key: keyof Draft["occurrence"], label: string, hint: string) => (
    <label>
      {label}
      <input value={occurrence[key]} placeholder={hint} onInput={(event) => change({ occurrence: { ...draft.value.occurrence, [key]: event.currentTarget.value } })} />
    </label>
  );
  return (
    <fieldset>
      <legend>How often</legend>
      <div class="fields">
        {input("times", "Times", "a number, or always")}
        {input("skip", "Skip the first", "0")}
        {input("every", "Then every n-th", "1")}
        {input("probability", "With probability", "1")}
      </div>
    </fieldset>
  );
}

function Problems() {
  return (
    <ul class="problems" role="alert">
      {problems.value.map((each, at) => (
        <li key={at}>
          {each.path && <code>{each.path}</code>} {each.detail}
          {each.possible?.length ? `; possible: ${each.possible.slice(0, 8).join(", ")}` : ""}
        </li>
      ))}
    </ul>
  );
}

/** The rule as JSON, for a test or for curl. */
function Preview() {
  let text: string;
  try {
    text = JSON.stringify(ruleOf(draft.value), null, 2);
  } catch {
    text = "the body is not JSON";
  }
  return (
    <details>
      <summary>The rule as JSON</summary>
      <pre tabIndex={0}>{text}</pre>
    </details>
  );
}
