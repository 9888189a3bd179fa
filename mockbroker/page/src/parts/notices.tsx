/** The result of the user's last action. */

import { signal } from "@preact/signals";
import { Problem } from "../data/api.ts";

interface Notice {
  text: string;
  failed: boolean;
}

const notice = signal<Notice | null>(null);
const SHOWN = 6_000; // milliseconds
let timer = 0;

/** Show a text for a few seconds; a failure until the next notice. */
export function notify(text: string, failed = false): void {
  notice.value = { text, failed };
  clearTimeout(timer);
  if (!failed) timer = window.setTimeout(() => (notice.value = null), SHOWN);
}

/** Wait for an action and show its result. Returns whether it succeeded. */
export async function act(action: Promise<unknown>, done: string): Promise<boolean> {
  try {
    await action;
    notify(done);
    return true;
  } catch (error) {
    notify(error instanceof Problem ? error.message : String(error), true);
    return false;
  }
}

export function Notices() {
  const { text = "", failed = false } = notice.value ?? {};
  return (
    <div class="notices">
      <p role="status">{failed ? "" : text}</p>
      <p role="alert">
        {failed && (
          <>
            {text} <button type="button" onClick={() => (notice.value = null)}>Close</button>
          </>
        )}
      </p>
    </div>
  );
}
