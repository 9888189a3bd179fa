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

from mockbroker.faults.preset import Parameter, Preset, no_rules
from mockbroker.faults.presets import PRESETS

EXAMPLES = {  # parameters that a preset needs, or that show its effect
    "zombie-member": 'client_id="worker-1", duration_ms=60_000',
    "slow-broker": "broker=1",
    "slow-producer": 'topic="orders", delay_ms=2_000',
    "slow-consumer": 'topic="orders", delay_ms=2_000',
    "poison-batch": 'topic="orders", form="magic"',
    "coordinator-loading": 'group="billing"',
    "blackholed-client": 'client_id="worker-1"',
    "stale-metadata": 'topic="orders", duration_ms=5_000',
    "unclean-leader-election": 'topic="orders", records=10',
}
HEAD = """# Presets

A preset makes a cluster show a common failure: it adds [fault rules](faults.md), or changes the cluster at times of the
broker's clock. Apply it from Python, with its parameters as keyword arguments:

```py
rules = cluster.faults.preset("coordinator-loading", group="billing")
```

From a shell it is `mockbroker ctl presets run coordinator-loading group=billing`, over HTTP
`POST /v1/presets/coordinator-loading` with the body `{"group": "billing"}` ([control-api.md](control-api.md)).

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
The tables "What clients did" are of one run of `python benchmarks/presets.py`, with the clients' versions that
[clients.md](clients.md) names. Each client ran alone against a cluster of three brokers with a topic of one partition
and three replicas. Times that depend on chance, such as pauses, differ from run to run.

- A consumer had read 5 records and committed. Then the preset was applied, 10 records were produced within 5 seconds,
  and after half of them the consumer committed again. After the 5 seconds the preset was removed, and the consumer was
  observed until it had read all new records, for at most 6 seconds more. "Pause" is the longest time without a new
  record, of 0.5 seconds between two of them. The session timeout was 2 seconds.
- A client that ended is a program that does not catch the exception of a poll or a commit.
- A producer sent 10 records of 20 kB to one partition, with `acks=all` and without idempotence.
- A transactional client had read 5 records and sent 5 in a transaction, which it committed under the preset.
"""
PRODUCERS = {"throttled-producer", "slow-producer"}
TRANSACTIONS = {"transaction-coordinator-lost-at-end-txn"}


def page(seen: Mapping[str, Any]) -> str:
    """Return the page. ``seen``: the content of presets.json; {} if nothing was recorded."""
    lines = [HEAD]
    if seen:
        lines.append(SEEN)
    for preset in PRESETS.values():
        lines += _section(preset, seen.get(preset.name, {}))
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
        given = ", ".join(f"{name}={json.dumps(value)}" for name, value in seen["parameters"].items())
        yield f"What clients did{given and f' with `{given}`'}:\n"
        has_rules = preset.build is not no_rules
        yield f"| client |{' requests that rules were applied to |' * has_rules} what it did |"
        yield f"|---|{'---|' * has_rules}---|"
        for client, outcome in seen["clients"].items():
            applied = f" {outcome['applied']} |" if has_rules else ""
            yield f"| {client} |{applied} {outcome_text(preset.name, outcome)} |"
        yield ""


def outcome_text(preset: str, outcome: Mapping[str, Any]) -> str:
    """Return in words what a client did. ``outcome``: the fields of ``Outcome`` of benchmarks/presets.py."""
    read, expected = outcome["read"], outcome["expected"]
    number = f"all {expected}" if read == expected else f"{read} of {expected}" if read else "no"
    again = f"{outcome['again']} records again" if outcome["again"] else ""
    if preset in TRANSACTIONS:
        committed = f"committed after {outcome['pause_s']} s" if outcome["committed"] else "the commit failed"
        parts = [committed, f"{number} records of the transaction are visible", again]
    elif preset in PRODUCERS:
        parts = [f"wrote {number} records in {outcome['pause_s']} s", again]
    else:
        changed = f"{outcome['changed']} with changed values" if outcome["changed"] else ""
        parts = [f"read {number} new records", again, changed, f"pause {outcome['pause_s']} s"]
        if outcome["committed"] is not None:
            parts.append("committed" if outcome["committed"] else "the commit was not confirmed")
        parts += [_times("joined again", outcome["joins"]), _times("was evicted", outcome["evicted"])]
    if outcome["ended"]:
        parts.append(f"ended with `{outcome['ended'].replace('|', '/').replace('`', '')}`")
    return "; ".join(part for part in parts if part)


def _times(what: str, number: int) -> str:
    return "" if not number else f"{what} once" if number == 1 else f"{what} {number} times"


def _row(name: str, parameter: Parameter) -> str:
    default = "required" if parameter.required else "" if parameter.default is None else f"`{parameter.default}`"
    options = f": {', '.join(f'`{each}`' for each in parameter.options)}" if parameter.options else ""
    return f"| `{name}` | {default} | {parameter.description}{options} |"


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(page(json.loads(source.read_text("utf-8")) if source.exists() else {}), "utf-8")
