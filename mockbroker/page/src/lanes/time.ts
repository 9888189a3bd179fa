/** Times and durations as text. */

const STEPS = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000];
const DAY = 86_400_000;

/** Return the times of about `count` ticks between two times in milliseconds. */
export function ticks(from: number, to: number, count: number): number[] {
  const least = (to - from) / Math.max(count, 1);
  const step = STEPS.find((each) => each >= least) ?? Math.ceil(least / 3_600_000) * 3_600_000;
  const found: number[] = [];
  for (let time = Math.ceil(from / step) * step; time <= to; time += step) found.push(time);
  return found;
}

/** Return the time of day in UTC, `09:30:05`; with `.250` if it is not a whole second. `ms`: since 1970. */
export function clockText(ms: number): string {
  const rest = (((Math.round(ms) % DAY) + DAY) % DAY);
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  const text = `${two(rest / 3_600_000)}:${two((rest / 60_000) % 60)}:${two((rest / 1_000) % 60)}`;
  return rest % 1_000 ? `${text}.${String(rest % 1_000).padStart(3, "0")}` : text;
}

/** Return a duration as text, such as `250 ms`, `1.2 s` or `3 min 5 s`. */
export function duration(ms: number): string {
  if (ms < 999.5) return `${Math.max(Math.round(ms), 0)} ms`;
  if (ms < 9_950) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
