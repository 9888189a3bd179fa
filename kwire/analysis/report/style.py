"""Style sheet of generated HTML pages. The module imports nothing, so that pages without captures need no extra."""

from __future__ import annotations

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; font-size: 13px; margin: .5rem 0 1.5rem }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid #ddd; vertical-align: top }
td.n { text-align: right; font-variant-numeric: tabular-nums }
tr.inferred td { font-style: italic }
td:first-child { white-space: nowrap }
tr.warn td, tr.critical td { background: #fdecea }
tr.warning td { background: #fef6e0 }
td.seen { color: #555; max-width: 24rem; overflow-wrap: anywhere }
h2 { margin-top: 2.5rem; border-top: 2px solid #222; padding-top: .8rem }
p.note { color: #555 }
"""
