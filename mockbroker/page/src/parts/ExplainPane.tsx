/** The fields of a frame beside its bytes: choosing one shows the other. */

import { type Signal, useSignal, useSignalEffect } from "@preact/signals";
import { visible } from "../data/names.ts";
import { place, setOptions } from "../data/place.ts";
import type { Frame, Piece, Tree } from "../data/types.ts";
import { memo } from "./memo.tsx";
import { Empty } from "./widgets.tsx";

const ROW = 16; // bytes
const MOST_BYTES = 16_384; // that are shown
const MOST_PIECES = 300; // of one field

export interface Range {
  offset: number;
  length: number;
}

export function ExplainPane({ frame }: { frame: Frame }) {
  const chosen = useSignal<Range | null>(rangeOf(place.peek().options["at"]));
  useSignalEffect(() => {
    const at = chosen.value ? `${chosen.value.offset}-${chosen.value.length}` : "";
    if (at !== (place.peek().options["at"] ?? "")) setOptions({ at });
  });
  return (
    <div class="explain">
      <div class="fields" role="region" aria-label="Fields" tabIndex={0}>
        <TreeView tree={frame.explain} chosen={chosen} />
      </div>
      {frame.hex ? <Hex hex={frame.hex} tree={frame.explain} chosen={chosen} /> : <Empty>The bytes are not shown, because they contain a secret.</Empty>}
      {frame.left_out ? <p class="dim">{frame.left_out} further bytes are not shown.</p> : null}
    </div>
  );
}

/** Return the bytes of a link, such as `12-4` for four bytes from byte 12 on. */
function rangeOf(text = ""): Range | null {
  const [offset, length] = text.split("-").map(Number);
  return text && Number.isInteger(offset) && Number.isInteger(length) ? { offset: offset ?? 0, length: length ?? 0 } : null;
}

function TreeView({ tree, chosen, inner = false }: { tree: Tree; chosen: Signal<Range | null>; inner?: boolean }) {
  return (
    <>
      <p class="message">
        {inner ? "decompressed: " : ""}
        {tree.name}
        {tree.error && <strong class="gone"> {tree.error}</strong>}
      </p>
      <Pieces pieces={tree.children} leftOut={tree.left_out} chosen={chosen} depth={0} selectable={!inner} />
    </>
  );
}

interface Level {
  chosen: Signal<Range | null>;
  depth: number;
  selectable: boolean;
}

function Pieces({ pieces, leftOut = 0, ...level }: { pieces: Piece[]; leftOut?: number | undefined } & Level) {
  const more = Math.max(pieces.length - MOST_PIECES, 0) + leftOut;
  return (
    <ul>
      {pieces.slice(0, MOST_PIECES).map((piece, at) => (
        <li key={at}>
          <PieceView piece={piece} {...level} />
        </li>
      ))}
      {more > 0 && <li class="dim">{more} more</li>}
    </ul>
  );
}

function PieceView({ piece, chosen, depth, selectable }: { piece: Piece } & Level) {
  const line = <FieldLine piece={piece} chosen={chosen} selectable={selectable} />;
  if (!piece.children?.length && !piece.unpacked) return line;
  return (
    <details open={depth < 3}>
      <summary>{line}</summary>
      {piece.children && <Pieces pieces={piece.children} leftOut={piece.left_out} chosen={chosen} depth={depth + 1} selectable={selectable} />}
      {piece.unpacked && <TreeView tree={piece.unpacked} chosen={chosen} inner />}
    </details>
  );
}

function FieldLine({ piece, chosen, selectable }: { piece: Piece; chosen: Signal<Range | null>; selectable: boolean }) {
  const current = selectable && chosen.value?.offset === piece.offset && chosen.value.length === piece.length;
  const content = (
    <>
      <span class="key">{visible(piece.name)}</span> {"value" in piece && !(piece.value === null && piece.children) && <bdi class="string">{valueText(piece.value)}</bdi>}
      {piece.note && <span> {visible(piece.note)}</span>} <small>{piece.type}</small>
      {piece.error && <strong class="gone"> {piece.error}</strong>}
    </>
  );
  if (!selectable) return <span>{content}</span>;
  return (
    <button type="button" class="link" aria-pressed={current} onClick={(event) => select(event, chosen, current ? null : piece)}>
      {content}
    </button>
  );
}

function select(event: Event, chosen: Signal<Range | null>, piece: Range | null): void {
  event.preventDefault(); // in a summary, a click would also open it
  chosen.value = piece && { offset: piece.offset, length: piece.length };
}

function valueText(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return visible(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}

function Hex({ hex, tree, chosen }: { hex: string; tree: Tree; chosen: Signal<Range | null> }) {
  const size = Math.min(hex.length / 2, MOST_BYTES);
  const rows = Array.from({ length: Math.ceil(size / ROW) }, (_, at) => at * ROW);
  const { offset = -1, length = 0 } = chosen.value ?? {};
  return (
    <div class="hex" role="region" aria-label="Bytes" tabIndex={0}>
      {rows.map((at) => (
        <HexRow key={at} at={at} hex={hex.slice(2 * at, 2 * Math.min(at + ROW, size))} begin={clamp(offset - at)} end={clamp(offset + length - at)} tree={tree} chosen={chosen} />
      ))}
      {hex.length / 2 > size && <p class="dim">{hex.length / 2 - size} further bytes</p>}
    </div>
  );
}

function clamp(value: number): number {
  return Math.min(Math.max(value, 0), ROW);
}

const HexRow = memo(({ at, hex, begin, end, tree, chosen }: { at: number; hex: string; begin: number; end: number; tree: Tree; chosen: Signal<Range | null> }) => {
  const bytes = hex.match(/../g) ?? [];
  const click = (event: MouseEvent) => {
    const byte = (event.target as HTMLElement).dataset["at"];
    if (byte) chosen.value = leafAt(tree.children, Number(byte));
  };
  return (
    <div class="hex-row" onClick={click}>
      <span class="offset">{at.toString(16).padStart(4, "0")}</span>
      <span class="bytes">
        {bytes.map((byte, column) => (
          <span key={column} data-at={at + column} class={column >= begin && column < end ? "chosen" : undefined}>
            {byte}
          </span>
        ))}
      </span>
      <span class="letters">{bytes.map(letterOf).join("")}</span>
    </div>
  );
});

function letterOf(byte: string): string {
  const code = Number.parseInt(byte, 16);
  return code >= 0x20 && code < 0x7f ? String.fromCharCode(code) : "·";
}

/** Return the innermost piece with a byte. */
function leafAt(pieces: Piece[], byte: number): Range | null {
  const found = pieces.find((piece) => byte >= piece.offset && byte < piece.offset + piece.length);
  if (!found) return null;
  return (found.children && leafAt(found.children, byte)) ?? { offset: found.offset, length: found.length };
}
