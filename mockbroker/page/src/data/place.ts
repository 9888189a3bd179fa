/** The place that the page shows, which is the hash of its address. */

import { signal } from "@preact/signals";
import { formatted, parsed, type Place } from "./hash.ts";

export const place = signal<Place>(parsed(location.hash));
window.addEventListener("hashchange", () => (place.value = parsed(location.hash)));

/** Go to a place, as a step of the browser's history. */
export function go(next: Place): void {
  location.hash = formatted(next);
}

/** Change options of the place, without a step of the browser's history; an empty value removes an option. */
export function setOptions(options: Record<string, string>): void {
  const next = { ...place.value, options: { ...place.value.options, ...options } };
  history.replaceState(null, "", formatted(next));
  place.value = parsed(location.hash);
}
