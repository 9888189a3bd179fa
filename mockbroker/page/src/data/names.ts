/**
 * Names in addresses.
 *
 * Kafka names are bytes. The API has bytes that are not UTF-8 as lone surrogates (Python's surrogateescape), and reads
 * them percent-encoded; `encodeURIComponent` throws an exception for them.
 */

const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

/** Return a name as one percent-encoded segment of a path, or as a value in a query. */
export function encoded(name: string): string {
  if (!LONE.test(name)) return encodeURIComponent(name);
  let out = "";
  for (const letter of name) {
    const code = letter.codePointAt(0) ?? 0;
    if (code >= 0xdc80 && code <= 0xdcff) out += `%${(code - 0xdc00).toString(16).toUpperCase()}`;
    else out += LONE.test(letter) ? "%EF%BF%BD" : encodeURIComponent(letter);
  }
  return out;
}

/** Return the name of a percent-encoded segment; invalid UTF-8 becomes lone surrogates. */
export function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return decodedBytes(segment);
  }
}

function decodedBytes(segment: string): string {
  return segment.replace(/(?:%[0-9a-f]{2})+/gi, (run) => {
    const bytes = Uint8Array.from(run.slice(1).split("%"), (hex) => Number.parseInt(hex, 16));
    let out = "";
    for (let at = 0; at < bytes.length; ) {
      const letter = [1, 2, 3, 4].map((length) => letterOf(bytes.subarray(at, at + length))).find((each) => each !== undefined);
      out += letter ?? String.fromCharCode(0xdc00 + (bytes[at] ?? 0));
      at += letter === undefined ? 1 : new TextEncoder().encode(letter).length;
    }
    return out;
  });
}

/** Return the character of bytes in UTF-8; undefined if they are none. */
function letterOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * Return a name so that all of it is visible: control characters, characters that reverse the direction of text, and
 * lone surrogates are replaced by their code.
 */
export function visible(name: string): string {
  return name.replace(HIDDEN, (letter) => `⟨${(letter.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}⟩`);
}

const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
