/** Requests of Kafka clients as they arrive, while a view shows them. */

import { signal } from "@preact/signals";
import { encoded } from "./names.ts";
import { Recent } from "./recent.ts";
import { follow } from "./stream.ts";
import type { RequestLine } from "./types.ts";

const KEPT = 1_000;
const LOOK_BACK = 300; // requests before the newest with which a list without filter begins

export const requests = new Recent<RequestLine>(KEPT);
/** Counts the changes of `requests`, at most four each second. */
export const requestChanges = signal(0);
export const skipped = signal(0);

export interface Filters {
  api: string;
  client_id: string;
  group: string;
}

let timer = 0;

/** Follow the requests that match. `newest`: id of the newest request. Returns the function that ends this. */
export function followRequests(filters: Filters, newest: number): () => void {
  requests.clear();
  skipped.value = 0;
  changed();
  const query = Object.entries(filters).map(([name, value]) => (value ? `&${name}=${encoded(value)}` : "")).join("");
  let last = query ? 0 : Math.max(newest - LOOK_BACK, 0);
  const add = (data: unknown) => {
    const line = data as RequestLine;
    last = Math.max(last, line.id);
    requests.put(line);
    changed();
  };
  const gap = (data: unknown) => {
    skipped.value += (data as { missed?: number }).missed ?? 0;
  };
  return follow(() => `/v1/requests/stream?after=${last}${query}`, { message: add, gap });
}

function changed(): void {
  if (timer) return;
  timer = window.setTimeout(() => {
    timer = 0;
    requestChanges.value += 1;
  }, 250);
}
