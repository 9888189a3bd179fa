/** Server-sent events that are followed until the stream is closed, over as many connections as that takes. */

import { signal } from "@preact/signals";

const PAUSE = 1_000; // milliseconds until the next attempt to connect

export interface Listeners {
  [event: string]: (data: unknown) => void;
}

/**
 * Follow a stream.
 *
 * `address` is where to connect, or a function that returns it for each attempt, to continue after the last event.
 * `onLoss` is called when a connection has ended. The result ends the stream.
 */
export function follow(address: string | (() => string), listeners: Listeners, onLoss: () => void = () => undefined): () => void {
  let source: EventSource | undefined;
  let timer = 0;
  let stopped = false;

  const connect = () => {
    source = new EventSource(typeof address === "string" ? address : address());
    for (const [name, listener] of Object.entries(listeners)) {
      source.addEventListener(name, (event) => listener(JSON.parse((event as MessageEvent<string>).data)));
    }
    source.addEventListener("error", lost);
    source.addEventListener("bye", lost);
  };
  const lost = () => {
    source?.close(); // not EventSource's own attempts: they would repeat the address of the first
    onLoss();
    clearTimeout(timer);
    if (!stopped) timer = window.setTimeout(connect, PAUSE);
  };
  connect();
  return () => {
    stopped = true;
    clearTimeout(timer);
    source?.close();
  };
}

/** Whether the page is visible, or was visible in the last minutes; a hidden page closes its streams. */
export const watched = signal(true);
const UNWATCHED = 300_000; // milliseconds; a browser has six connections to a server for all its tabs
let hidden = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hidden);
  if (document.visibilityState === "visible") watched.value = true;
  else hidden = window.setTimeout(() => (watched.value = false), UNWATCHED);
});
