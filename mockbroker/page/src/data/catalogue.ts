/** What does not change while a server runs: APIs, errors and presets. */

import { signal } from "@preact/signals";
import { read } from "./api.ts";
import { connection } from "./live.ts";
import type { Api, Preset } from "./types.ts";

interface Apis {
  items: Api[];
  errors: string[];
  codes?: Record<string, number>;
  connect?: { match: string[]; actions: string[] };
}

export const apis = signal<Apis>({ items: [], errors: [] });
export const presets = signal<Preset[]>([]);

connection.subscribe((now) => {
  if (now !== "live" || apis.peek().items.length) return;
  void read<Apis>("/v1/apis").then((found) => (apis.value = found), ignore);
  void read<{ items: Preset[] }>("/v1/presets").then((found) => (presets.value = found.items), ignore);
});

function ignore(): void {
  // the next connection tries again
}

/** Return the name of an error code. */
export function errorText(code: number): string {
  const found = Object.entries(apis.value.codes ?? {}).find(([, each]) => each === code);
  return found ? found[0] : `error ${code}`;
}
