/** Small parts that several views use. */

import type { ComponentChildren } from "preact";
import { formatted, type Place } from "../data/hash.ts";
import { leftOut } from "../data/live.ts";
import { visible } from "../data/names.ts";
import { counted } from "../data/numbers.ts";
import { notify } from "./notices.tsx";

/** A name that a client chose: always text, and all of it visible. */
export function Name({ of }: { of: string }) {
  return (
    <bdi class="name" title={of.length > 30 ? visible(of) : undefined}>
      {visible(of) || "(empty)"}
    </bdi>
  );
}

export function Link({ to, children, current }: { to: Place; children: ComponentChildren; current?: boolean }) {
  return (
    <a href={formatted(to)} aria-current={current ? "page" : undefined}>
      {children}
    </a>
  );
}

/** A button with a choice of one of several values. */
export function Choice<T extends string>(props: { label: string; value: T; options: readonly (readonly [T, string])[]; onChange: (value: T) => void }) {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button type="button" key={value} aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** A table in a region that scrolls by itself, so that the page never does so sideways. */
export function Table({ label, columns, children, tall }: { label: string; columns: readonly string[]; children: ComponentChildren; tall?: boolean }) {
  return (
    <div class={tall ? "scroll tall" : "scroll"} role="region" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((each) => (
              <th scope="col" key={each} class={each.startsWith("#") ? "number" : undefined}>
                {each.replace("#", "")}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

/** What is shown in place of a group or topic that the page does not have. */
export function Missing({ what, name }: { what: "group" | "topic"; name: string }) {
  const others = leftOut(`${what}s`);
  return (
    <Empty>
      The {what} <Name of={name} /> {others ? `does not exist, or is among ${counted(others, what)} that the page does not show.` : "does not exist."}
    </Empty>
  );
}

export function Badge({ kind, children }: { kind: string; children: ComponentChildren }) {
  return <span class={`badge ${kind}`}>{children}</span>;
}

/** Copy a text; where the browser does not allow that, show it. */
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    notify(`${what} copied`);
  } catch {
    notify(`${what}: ${text}`);
  }
}

/** Save a text as a file. */
export function save(name: string, content: string, media: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: media }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
}
