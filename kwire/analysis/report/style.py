"""Style sheet of generated HTML pages. The module imports nothing, so that pages without captures need no extra."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --text: #1f2328; --soft: #57606a; --back: #ffffff; --raised: #f6f8fa; --line: #d0d7de; --link: #0a5fb4;
  --bad: #ffe3e0; --warn: #fff3cd; --stop: #d1242f; --gap: #ffd9d6;
  --g0: #4c78a8; --g1: #72b7b2; --g2: #54a24b; --g3: #9d755d; --g4: #b279a2; --g5: #8c8c8c;
  --heat1: #e3eef9; --heat2: #b5d4ee; --heat3: #7fb2dc; --heat4: #5797cf;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e6edf3; --soft: #a9b3bf; --back: #0d1117; --raised: #161b22; --line: #30363d; --link: #6cb6ff;
    --bad: #5a1d1d; --warn: #4a3b0c; --stop: #ff6b63; --gap: #4a1f22;
    --g0: #5b8fc7; --g1: #5fa8a3; --g2: #4f9a47; --g3: #a8806a; --g4: #a06c92; --g5: #7d7d7d;
    --heat1: #14304a; --heat2: #1c4a73; --heat3: #225c90; --heat4: #2b6cab;
  }
}
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 120rem; padding: 0 1rem;
  box-sizing: border-box; color: var(--text); background: var(--back) }
h1, h2, h3, p, summary { overflow-wrap: anywhere }
h1 { margin: 0 }
h2 { margin: 2.5rem 0 .5rem; border-top: 2px solid var(--line); padding-top: .8rem }
a { color: var(--link) }
a:focus-visible, button:focus-visible, summary:focus-visible, input:focus-visible, [tabindex]:focus-visible {
  outline: 2px solid var(--link); outline-offset: 1px }
.skip { position: absolute; left: -99rem }
.skip:focus { left: 1rem; top: .3rem; background: var(--back); padding: .2rem .6rem }
nav { position: sticky; top: 0; z-index: 2; background: var(--back); border-bottom: 1px solid var(--line);
  padding: .4rem 0; display: flex; flex-wrap: wrap; gap: .3rem 1rem; align-items: center }
html { scroll-padding-top: 4.5rem }
tr { scroll-margin-top: 2.5rem }
input, button { font: inherit; font-size: 13px; color: var(--text); background: var(--raised);
  border: 1px solid var(--line); border-radius: 4px; padding: .15rem .5rem }
button { cursor: pointer }
button[aria-pressed="true"] { background: var(--link); color: var(--back) }
@property --left { syntax: "<length>"; inherits: false; initial-value: 0px }
@property --right { syntax: "<length>"; inherits: false; initial-value: 0px }
@keyframes edges {
  0% { --left: 0px; --right: 2rem } 10%, 90% { --left: 2rem; --right: 2rem } 100% { --left: 2rem; --right: 0px } }
.scroll { overflow-x: auto; max-width: 100%; margin: .5rem 0 1.5rem;
  mask-image: linear-gradient(to right, transparent, #000 var(--left), #000 calc(100% - var(--right)), transparent);
  animation: edges linear; animation-timeline: scroll(self inline) }
.scroll:focus-visible { outline-offset: -2px }
.hint { color: var(--soft); font-size: 13px; margin: .5rem 0 0 }
.hint + .scroll { margin-top: 0 }
table { border-collapse: collapse; font-size: 13px }
.scroll > table { width: max-content }
caption { text-align: left; font-weight: 600; padding: .2rem 0 }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top }
td { max-width: 26rem; overflow-wrap: anywhere }
th { max-width: 6.5rem }
th.n { text-align: right }
th { background: var(--raised); font-weight: 600; vertical-align: bottom }
th button { all: unset; cursor: pointer; font-weight: 600 }
th button:focus-visible { outline: 2px solid var(--link) }
th[aria-sort="ascending"] button::after { content: " ▲" }
th[aria-sort="descending"] button::after { content: " ▼" }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.rebalances td:first-child, .findings td:nth-child(n+5):nth-child(-n+6) { white-space: nowrap }
.rebalances td:nth-child(13), .findings td:last-child { min-width: 7rem }
.rebalances td:nth-child(4) { min-width: 5.5rem }
.rebalances td:nth-child(5) { min-width: 12rem; max-width: 18rem }
tr.inferred td { font-style: italic }
tr.warn td, tr.critical td { background: var(--bad) }
tr.warning td { background: var(--warn) }
tr:target td, tr.chosen td { box-shadow: inset 0 0 0 9in #4a8cc433 }
td details { color: var(--soft); max-width: 24rem; overflow-wrap: anywhere }
details > summary { cursor: pointer }
td details.alike { color: inherit; max-width: none }
.alike ol { margin: .3rem 0; padding-left: 2rem }
.alike small { color: var(--soft) }
td.heat-1 { background: var(--heat1) } td.heat-2 { background: var(--heat2) }
td.heat-3 { background: var(--heat3) } td.heat-4 { background: var(--heat4) }
p.note { color: var(--soft); margin: .3rem 0 }
.lanes { margin: .5rem 0 1rem; position: relative }
.lanes .bar { display: flex; flex-wrap: wrap; gap: .3rem; margin: .3rem 0 }
.lanes .bar .range { color: var(--soft); font-size: 13px; align-self: center }
.lanes svg { display: block; width: 100%; background: var(--raised); touch-action: pan-y }
svg text { font: 11px system-ui, sans-serif; fill: var(--text) }
svg .axis, svg .tick { stroke: var(--line); stroke-width: 1 }
svg .g0 { fill: var(--g0) } svg .g1 { fill: var(--g1) } svg .g2 { fill: var(--g2) }
svg .g3 { fill: var(--g3) } svg .g4 { fill: var(--g4) } svg .g5 { fill: var(--g5) }
svg .stop { fill: var(--stop) } svg .unread { fill: var(--gap) }
svg .lag { fill: none; stroke: var(--text); stroke-width: 1.2 } svg .commit { stroke: var(--text); stroke-width: 1 }
svg .start { stroke: var(--soft); stroke-width: .6; stroke-dasharray: 2 3 }
svg .cursor { fill: none; stroke: var(--text); stroke-width: 1.5 }
#tip { position: fixed; z-index: 3; max-width: min(22rem, 90vw); padding: .3rem .6rem; font-size: 13px;
  white-space: pre-line; overflow-wrap: anywhere; pointer-events: none; color: var(--text); background: var(--back);
  border: 1px solid var(--line); border-radius: 4px; box-shadow: 0 2px 8px #0004 }
@media (min-width: 64rem) { .scroll > table { width: auto } td { overflow-wrap: break-word }
  .findings td:nth-child(2) { min-width: 18rem; max-width: 48rem } }
@media (max-width: 40rem) { body { padding: 0 .6rem } td { max-width: 13rem } nav { position: static }
  html { scroll-padding-top: 0 } }
@media (forced-colors: active) {
  button[aria-pressed="true"] { forced-color-adjust: none; background: Highlight; color: HighlightText }
  tr:target, tr.chosen { outline: 2px solid Highlight; outline-offset: -2px } }
@media print { nav, .hint, .lanes .bar { display: none } .scroll { overflow: visible; mask: none } }
"""
