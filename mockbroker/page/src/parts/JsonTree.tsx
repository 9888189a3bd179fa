/** A JSON value as a tree whose objects and lists open and close. */

import { isObject } from "../data/patch.ts";
import { visible } from "../data/names.ts";

const OPEN = 12; // items of a list or object that is open at first
const SHOWN = 200; // items of a list

export function JsonTree({ value }: { value: unknown }) {
  return (
    <div class="json" role="region" aria-label="Decoded body" tabIndex={0}>
      <Node value={value} depth={0} />
    </div>
  );
}

function Node({ value, depth }: { value: unknown; depth: number }) {
  if (!isObject(value) && !Array.isArray(value)) return <Leaf value={value} />;
  const items = Object.entries(value);
  return (
    <ul>
      {items.slice(0, SHOWN).map(([key, each]) => (
        <li key={key}>
          <Item name={Array.isArray(value) ? `[${key}]` : key} value={each} depth={depth} />
        </li>
      ))}
      {items.length > SHOWN && <li class="dim">{items.length - SHOWN} more</li>}
    </ul>
  );
}

function Item({ name, value, depth }: { name: string; value: unknown; depth: number }) {
  const size = Array.isArray(value) ? value.length : isObject(value) ? Object.keys(value).length : 0;
  if (!size)
    return (
      <>
        <span class="key">{visible(name)}</span> <Leaf value={value} />
      </>
    );
  return (
    <details open={size <= OPEN && depth < 4}>
      <summary>
        <span class="key">{visible(name)}</span> <small>{Array.isArray(value) ? `${size} items` : ""}</small>
      </summary>
      <Node value={value} depth={depth + 1} />
    </details>
  );
}

function Leaf({ value }: { value: unknown }) {
  if (typeof value === "string") return <bdi class="string">{JSON.stringify(visible(value))}</bdi>;
  return <span class="literal">{Array.isArray(value) ? "[]" : isObject(value) ? "{}" : String(value)}</span>;
}
