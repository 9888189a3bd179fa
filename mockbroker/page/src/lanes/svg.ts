/** A picture of lanes as an SVG document that needs no other file. */

import { visible } from "../data/names.ts";
import { AXIS, type Box, COLOURS, PATTERNS, type Picture, TOP } from "./layout.ts";
import { fits } from "./fit.ts";

const STYLE = `
  :root { color-scheme: light dark; --text: #1a2230; --dim: #4d5a6e; --paper: #fff; --line: #d5dbe4; --wait: #fff1c9; --waiting: #8a5a00; --gap: #fde3e0; --gone: #b3261e }
  @media (prefers-color-scheme: dark) { :root { --text: #e7ecf3; --dim: #a4b0c2; --paper: #12161d; --line: #313a48; --wait: #3d3211; --waiting: #f0c24b; --gap: #46201d; --gone: #ff8a80 } }
  text { font: 11px system-ui, sans-serif; fill: var(--text) } .dim { fill: var(--dim) } .paper { fill: var(--paper) }
  .line { stroke: var(--line) } .joins, .syncs { fill: var(--wait); stroke: var(--waiting) } .unowned { fill: var(--gap); stroke: var(--gone) }
  .idle, .away { fill: none; stroke: var(--dim); stroke-dasharray: 3 2 } .column { fill: var(--wait); opacity: .45 } .stripe { stroke: var(--dim); stroke-width: 2; opacity: .3 } .evicted, .left { fill: var(--gone) }
`;
/** Hues of the members, as in the style sheet of the page. */
export const HUES = [215, 28, 150, 320, 265, 190, 85, 350];

/** Return the SVG document of a picture. `title`: what it shows. */
export function svg(picture: Picture, title: string): string {
  const label = escaped(visible(title));
  const { width, height, gutter } = picture;
  const owners = HUES.map((hue, at) => `.c${at} { fill: hsl(${hue} 70% 86%); stroke: hsl(${hue} 65% 38%) }`).join("\n  ");
  const dark = HUES.map((hue, at) => `.c${at} { fill: hsl(${hue} 40% 24%); stroke: hsl(${hue} 60% 62%) }`).join(" ");
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${label}">`,
    `<title>${label}</title>`,
    stripes(1, "M0 8L8 0"),
    stripes(2, "M0 0L8 8"),
    `<style>${STYLE}  ${owners}\n  @media (prefers-color-scheme: dark) { ${dark} }</style>`,
    `<rect class="paper" width="${width}" height="${height}"/>`,
    ...picture.columns.map((each) => `<rect class="column" x="${round(each.x)}" y="${AXIS}" width="${round(each.width)}" height="${height - AXIS}"><title>${escaped(each.title)}</title></rect>`),
    ...picture.columns.map((each) => text(each.x + 3, AXIS + 14, fits(each.labels, each.room), "dim")),
    ...picture.ticks.map((each) => `<line class="line" x1="${round(each.x)}" x2="${round(each.x)}" y1="16" y2="${height}"/>${text(each.x + 3, 13, each.text, "dim")}`),
    ...picture.rows.map((each) => `<line class="line" x1="0" x2="${width}" y1="${each.y}" y2="${each.y}"/>${text(4, each.y + each.height / 2 + 4, fits([each.text], gutter - 8))}`),
    ...picture.boxes.map(bar),
    ...picture.notes.map((each) => text(each.x, each.y + 4, fits(each.labels, each.room), "evicted")),
    ...picture.signs.map((each) => `<circle class="sign ${each.kind}" cx="${round(each.x)}" cy="${round(each.y)}" r="4"><title>${escaped(each.title)}</title></circle>`),
    `<line class="line" x1="${gutter}" x2="${gutter}" y1="${TOP}" y2="${height}"/>`,
    "</svg>",
  ];
  return `${parts.join("\n")}\n`;
}

function stripes(number: number, path: string): string {
  return `<pattern id="stripes-${number}" width="8" height="8" patternUnits="userSpaceOnUse"><path class="stripe" d="${path}"/></pattern>`;
}

function bar(box: Box): string {
  const style = box.fill === "owns" ? `owns c${box.colour % COLOURS}` : box.fill;
  const data = `data-lane="${escaped(box.lane)}" data-begin="${box.begin}" data-end="${box.end ?? ""}"`;
  const label = text(box.x + 5, box.y + box.height / 2 + 4, box.height < 12 ? "" : fits(box.labels, box.width - 8));
  const shape = `x="${round(box.x)}" y="${box.y}" width="${round(box.width)}" height="${box.height}" rx="2"`;
  const pattern = box.fill === "owns" ? Math.floor(box.colour / COLOURS) % PATTERNS : 0;
  const over = pattern ? `<rect fill="url(#stripes-${pattern})" ${shape} pointer-events="none"/>` : "";
  return `<rect class="${style}" ${shape} ${data}><title>${escaped(box.title)}</title></rect>${over}${label}`;
}

function text(x: number, y: number, content: string, style = ""): string {
  return content ? `<text x="${round(x)}" y="${round(y)}"${style ? ` class="${style}"` : ""}>${escaped(content)}</text>` : "";
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Return a text for XML: markup becomes text, and characters that XML does not allow become U+FFFD. */
export function escaped(content: string): string {
  return content
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd")
    .replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}
