/** Controls of the time span: its length, and whether it follows the clock. */

import { fixedEnd, length, LENGTHS, pan, pause, setLength, writeSpan, zoom } from "../lanes/span.ts";
import { duration } from "../lanes/time.ts";
import { copy } from "./widgets.tsx";

export function SpanControls() {
  const lengths = LENGTHS.some((each) => each === length.value) ? LENGTHS : [...LENGTHS, length.value];
  const then = (change: () => void) => () => {
    change();
    writeSpan();
  };
  return (
    <>
      <button type="button" aria-pressed={fixedEnd.value === null} onClick={then(() => pause(fixedEnd.value === null))}>
        {fixedEnd.value === null ? "Live" : "Go live"}
      </button>
      <label>
        Show{" "}
        <select value={length.value} onChange={(event) => then(() => setLength(Number(event.currentTarget.value)))()}>
          {lengths.map((each) => (
            <option key={each} value={each}>
              {duration(each).replace(" 0 s", "").replace(" 0 min", "")}
            </option>
          ))}
        </select>
      </label>
      <div class="choice" role="group" aria-label="Move in time">
        <button type="button" aria-label="Earlier" onClick={then(() => pan(-length.value / 4))}>
          ←
        </button>
        <button type="button" aria-label="Later" onClick={then(() => pan(length.value / 4))}>
          →
        </button>
        <button type="button" aria-label="Zoom in" onClick={then(() => zoom(0.5))}>
          +
        </button>
        <button type="button" aria-label="Zoom out" onClick={then(() => zoom(2))}>
          −
        </button>
      </div>
      <button type="button" onClick={copyLink}>
        Copy link
      </button>
    </>
  );
}

/** Copy the address of the interval that is shown: everyone who opens the link sees the same interval. */
function copyLink(): void {
  if (fixedEnd.value === null) pause(true);
  writeSpan();
  void copy(location.href, "Link to this span");
}
