/** Texts that fit into a width. */

const LETTER = 6.1; // average width of a letter of 11 pixels

/** Return the first text that fits into a width in pixels; the last one is cut if no text fits, or "" if there is no room. */
export function fits(texts: readonly string[], width: number): string {
  for (const text of texts) if (text.length * LETTER <= width) return text;
  const last = texts.at(-1) ?? "";
  const letters = Math.floor(width / LETTER) - 1;
  return letters >= 5 ? `${last.slice(0, letters)}…` : "";
}

/**
 * Return the labels that have room one below the other, with the `y` at which they are drawn: the lower edge of a label.
 *
 * A label moves down if another one is there; below `bottom`, labels are left out. Of labels with the same `y`, the first
 * comes first. `top`: the lowest `y`. `height`: of a label.
 */
export function placed<T extends { y: number }>(labels: readonly T[], top: number, bottom: number, height: number): T[] {
  const found: T[] = [];
  let floor = top;
  for (const label of [...labels].sort((some, other) => some.y - other.y)) {
    const y = Math.max(label.y, floor);
    if (y > bottom) break;
    found.push({ ...label, y });
    floor = y + height;
  }
  return found;
}
