/** JSON merge patches (RFC 7396). */

type Json = unknown;

/**
 * Apply a merge patch to a value.
 *
 * The value is not changed. Objects that the patch does not touch are shared with the result, so that a component
 * whose object is the same need not be rendered again.
 */
export function merged(target: Json, patch: Json): Json {
  if (!isObject(patch)) return patch;
  const result: Record<string, Json> = Object.assign(Object.create(null), isObject(target) ? target : {});
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = merged(result[key], value);
  }
  return result;
}

/** Return whether a value is an object, which is neither null nor an array. */
export function isObject(value: Json): value is Record<string, Json> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
