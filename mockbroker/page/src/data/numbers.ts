/** Numbers in words. */

/** Return a number with thousands separated, as in 12,345. */
export const number = (value: number): string => value.toLocaleString("en");

/** Return a number of things, as in 1 member and 2 members. */
export const counted = (count: number, thing: string): string => `${number(count)} ${thing}${count === 1 ? "" : "s"}`;
