/** The state of the page as the hash of its address: `#/groups/billing?by=partition&from=1000&to=60000`. */

import { decoded, encoded } from "./names.ts";

export const VIEWS = ["groups", "requests", "topics", "brokers", "transactions", "faults", "events"] as const;
export type View = (typeof VIEWS)[number];

/**
 * A place in the page.
 *
 * `view`: the part of the page. `name`: the group or topic, or "". `options`: everything else, such as the time
 * span, filters, and the selected request; empty values are left out.
 */
export interface Place {
  view: View;
  name: string;
  options: Record<string, string>;
}

/** Return the place of a hash; the groups if the hash is no place. */
export function parsed(hash: string): Place {
  const [path = "", query = ""] = split(hash.replace(/^#?\/?/, ""), "?");
  const [view = "", name = ""] = split(path, "/");
  const options: Record<string, string> = {};
  for (const pair of query.split("&")) {
    const [key = "", value = ""] = split(pair, "=");
    if (key && value) options[decoded(key)] = decoded(value);
  }
  const known = VIEWS.find((each) => each === view);
  return known ? { view: known, name: decoded(name), options } : { view: "groups", name: "", options: {} };
}

/** Return the hash of a place. */
export function formatted({ view, name, options }: Place): string {
  const query = Object.entries(options)
    .filter(([, value]) => value !== "")
    .map(([key, value]) => `${encoded(key)}=${encoded(value)}`)
    .join("&");
  return `#/${view}${name ? `/${encoded(name)}` : ""}${query ? `?${query}` : ""}`;
}

function split(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}
