/** The presets: rules and changes of the cluster that are applied together. */

import { ask } from "../data/api.ts";
import { presets } from "../data/catalogue.ts";
import { state } from "../data/live.ts";
import { encoded } from "../data/names.ts";
import { place, setOptions } from "../data/place.ts";
import type { Parameter, Preset } from "../data/types.ts";
import { act } from "../parts/notices.tsx";
import { Badge } from "../parts/widgets.tsx";

export function Presets() {
  const active = state.value?.presets ?? {};
  return (
    <section class="panel">
      <h3>Presets</h3>
      {presets.value.map((preset) => (
        <PresetForm key={preset.name} preset={preset} active={active[preset.name] ?? false} />
      ))}
    </section>
  );
}

function PresetForm({ preset, active }: { preset: Preset; active: boolean }) {
  const { preset: shown = "", values = "" } = place.value.options;
  const open = shown === preset.name;
  const given = open ? valuesOf(values) : {};
  const parameters = Object.entries(preset.parameters).map(([name, each]) => ({ name, ...each }));
  return (
    <details open={open} onToggle={(event) => toggle(preset.name, event.currentTarget.open)}>
      <summary>
        <strong>{preset.name}</strong> {active && <Badge kind="active">active</Badge>}
        <span class="dim"> {preset.description}</span>
      </summary>
      {open && (
        <form class="fields" aria-label={preset.name} onInput={(event) => setOptions({ values: linkOf(event.currentTarget, parameters) })} onSubmit={(event) => apply(event, preset.name, parameters)}>
          {parameters.map((each) => (
            <ParameterInput key={each.name} parameter={each} value={given[each.name]} />
          ))}
          <div class="toolbar">
            <button class="main">Apply</button>
            {active && (
              <button type="button" onClick={() => act(ask("DELETE", `/v1/faults/${encoded(preset.name)}`), `${preset.name} is removed`)}>
                Remove
              </button>
            )}
          </div>
        </form>
      )}
    </details>
  );
}

/** Show the parameters of a preset, and only of this one. */
function toggle(preset: string, open: boolean): void {
  const shown = place.peek().options["preset"] ?? "";
  if (open && shown !== preset) setOptions({ preset, values: "" });
  else if (!open && shown === preset) setOptions({ preset: "", values: "" });
}

/** Return the parameters that a form has as text for a link. */
function linkOf(form: HTMLFormElement, parameters: Parameter[]): string {
  const data = new FormData(form);
  const values = new URLSearchParams();
  for (const { name } of parameters) if (data.get(name)) values.set(name, String(data.get(name)));
  return values.toString();
}

function valuesOf(link: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(link));
}

function apply(event: SubmitEvent, preset: string, parameters: Parameter[]): void {
  event.preventDefault();
  const data = new FormData(event.currentTarget as HTMLFormElement);
  const body: Record<string, unknown> = {};
  for (const { name, kind } of parameters) {
    const value = String(data.get(name) ?? "");
    if (value !== "") body[name] = kind === "integer" || (kind === "times" && /^\d+$/.test(value)) ? Number(value) : value;
  }
  void act(ask("POST", `/v1/presets/${preset}`, body), `${preset} is applied`);
}

interface Props {
  parameter: Parameter;
  value: string | undefined;
}

function ParameterInput({ parameter, value }: Props) {
  return (
    <label title={parameter.description}>
      {parameter.name}
      <ValueInput parameter={parameter} value={value} />
    </label>
  );
}

function ValueInput({ parameter, value = "" }: Props) {
  const { name, kind, required = false, options, lowest, highest } = parameter;
  const given = parameter.default === undefined || parameter.default === null ? "" : String(parameter.default);
  const hint = given || (required ? "" : "none");
  if (kind === "integer") return <input type="number" name={name} min={lowest} max={highest} required={required} placeholder={hint} value={value} />;
  if (!options) return <input name={name} required={required} placeholder={hint} value={value} />;
  return (
    <select name={name}>
      {options.map((each) => (
        <option key={each} selected={each === (value || given)}>
          {each}
        </option>
      ))}
    </select>
  );
}
