/** Texts that fit into a width. */

const LETTER = 6.1; // average width of a letter of 11 pixels

/** Return the first text that fits into a width in pixels; the last one is cut if no text fits, or "" if there is no room. */
export function fits(texts: readonly string[], width: number): string {
  for (const text of texts) if (text.length * LETTER <= width) return text;
  const last = texts.at(-1) ?? "";
  const letters = Math.floor(width / LETTER) - 1;
  return letters >= 5 ? `${last.slice(0, letters)}…` : "";
}
