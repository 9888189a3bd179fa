"""docs/presets.md: the presets, their parameters, and what clients were seen to do under each.

    python tools/presets_page.py benchmarks/results/presets.json docs/presets.md

The observations are made by benchmarks/presets.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mockbroker.faults.preset import Parameter, Preset
from mockbroker.faults.presets import PRESETS

EXAMPLES = {  # parameters that a preset needs, or that show what it can do
    "zombie-member": 'client_id="worker-1", duration_ms=60_000',
    "slow-broker": "broker=1",
    "slow-producer": 'topic="orders", delay_ms=2_000',
    "slow-consumer": 'topic="orders", delay_ms=2_000',
    "poison-batch": 'topic="orders", form="magic"',
    "coordinator-loading": 'group="billing"',
    "blackholed-client": 'client_id="worker-1"',
    "unclean-leader-election": 'topic="orders", records=10',
}
HEAD = """# Presets

A preset makes a cluster show a common failure: it adds [fault rules](faults.md), or changes the cluster at times of the
broker's clock. Apply it from Python, with its parameters as keyword arguments:

```py
rules = cluster.faults.preset("coordinator-loading", group="billing")
```

The call returns the names of the rules that it has added; `cluster.faults.presets()` returns all presets with their
parameters. A preset lasts until its rules have been applied as often as `times` says, until its time is over, or until
`cluster.faults.remove(name)`. Removing it also undoes its changes: a stopped broker is started, and outdated metadata
is replaced. Each change is a `fault` event in the journal.

- `name` is a parameter of every preset: the name of its rule, or the start of the names if it has several. By default
  it is the name of the preset. A preset can be active several times under different names.
- `group`, `topic`, `client_id` and `transactional_id` may have the wildcards `*` and `?`.
- `times` is a number or `"always"`.
- All times are milliseconds of the broker's clock, so `cluster.clock.advance` passes them without waiting.
- A rule whose time is over stays in `cluster.faults.states()` with its counters, and releases what it holds.
"""
SEEN = """
The tables "What clients did" were recorded by `python benchmarks/presets.py`. {how}
"""


def page(seen: Mapping[str, Any]) -> str:
    """Return the page. ``seen``: the content of presets.json; {} if nothing was recorded."""
    lines = [HEAD]
    if seen:
        lines.append(SEEN.format(how=seen["how"]))
    for preset in PRESETS.values():
        lines += _section(preset, seen.get("presets", {}).get(preset.name, {}))
    return "\n".join(lines).replace("\n\n\n", "\n\n")


def _section(preset: Preset, seen: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {preset.name}\n"
    description = preset.description[0].upper() + preset.description[1:]
    yield f"{description}.\n"
    example = ", ".join(part for part in (f'"{preset.name}"', EXAMPLES.get(preset.name)) if part)
    yield f"```py\ncluster.faults.preset({example})\n```\n"
    yield "| parameter | default | meaning |"
    yield "|---|---|---|"
    yield from (_row(name, each) for name, each in preset.parameters.items() if name != "name")
    yield ""
    if seen:
        yield f"What clients did ({seen['scenario']}):\n"
        yield "| client | outcome |"
        yield "|---|---|"
        yield from (f"| {client} | {outcome} |" for client, outcome in seen["clients"].items())
        yield ""


def _row(name: str, parameter: Parameter) -> str:
    default = "required" if parameter.required else "" if parameter.default is None else f"`{parameter.default}`"
    options = f": {', '.join(f'`{each}`' for each in parameter.options)}" if parameter.options else ""
    return f"| `{name}` | {default} | {parameter.description}{options} |"


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(page(json.loads(source.read_text("utf-8")) if source.exists() else {}), "utf-8")
