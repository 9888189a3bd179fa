/** The broker's clock: stop it, advance it by hand, and let it run again. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask } from "../data/api.ts";
import { can, epoch, now, state } from "../data/live.ts";
import type { JournalEvent } from "../data/types.ts";
import { clockText, duration } from "../lanes/time.ts";
import { act, notify } from "./notices.tsx";

const STEPS = [100, 1_000, 10_000] as const;

export function ClockControl() {
  const clock = state.value?.clock;
  if (!clock) return null;
  const stopped = clock.mode === "manual";
  const change = stopped ? ask.bind(null, "POST", "/v1/clock", { mode: "real" }) : ask.bind(null, "POST", "/v1/clock", { mode: "manual" });
  return (
    <div class="clock" role="group" aria-label="Clock of the broker">
      <Time />
      {can("clock") && <button type="button" onClick={() => act(change(), stopped ? "The clock runs" : "The clock is stopped: timeouts wait until you advance it")}>
        {stopped ? "Run" : "Stop"} the clock
      </button>}
      {stopped && <Steps />}
    </div>
  );
}

function Steps() {
  const seconds = useSignal("60");
  return (
    <>
      {STEPS.map((ms) => (
        <button type="button" key={ms} onClick={() => advance(ms)}>
          +{duration(ms).replace(".0", "")}
        </button>
      ))}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void advance(Number(seconds.value) * 1_000);
        }}
      >
        <input type="number" min="0.001" step="any" aria-label="Seconds to advance" value={seconds} onInput={(event) => (seconds.value = event.currentTarget.value)} />
        <button>s forward</button>
      </form>
    </>
  );
}

async function advance(ms: number): Promise<void> {
  let found: JournalEvent[] = [];
  const request = ask<{ events?: JournalEvent[] }>("POST", "/v1/clock", { advance_ms: ms }).then((answer) => (found = answer.events ?? []));
  if (await act(request, "")) notify(`${duration(ms)} later: ${found.length ? `${found.length} events` : "nothing happened"}`);
}

/** The time of the broker, every second. */
function Time() {
  const tick = useSignal(0);
  useEffect(() => {
    const timer = setInterval(() => (tick.value += 1), 1_000);
    return () => clearInterval(timer);
  }, []);
  void tick.value;
  const time = epoch() + now();
  const stopped = state.value?.clock.mode === "manual";
  return (
    <time title="Time of the broker, in UTC">
      {clockText(stopped ? time : Math.floor(time / 1_000) * 1_000)} UTC{stopped && " (stopped)"}
    </time>
  );
}
