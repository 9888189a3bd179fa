"""``mockbroker simulate``: the broker under seeded clients and faults, in virtual time."""

from __future__ import annotations

import gc
import json
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mockbroker.cli.quiet import quiet

if TYPE_CHECKING:
    from mockbroker.lab.simulation.run import Outcome

REPEATED = 25  # every so many seeds one is run twice, and must run the same way
SEEDS, EVENTS = 100, 1_000
COLLECT_AFTER = (50_000, 20, 20)  # objects: to look for cycles as often as usual takes a quarter of the time
SCHEME_NAMES = ("swarm", "lite", "calm")  # of simulation.schemes, which is not imported for --help
HISTORY_NAMES = (
    "zookeeper",
    "server",
    "draft",
    "classic",
    "cooperative",
    "consumer",
)  # of history.comparison, likewise


@click.command("simulate")
@click.option("--seed", type=click.IntRange(0), help="The first seed; alone: the only one.")
@click.option("--seeds", type=click.IntRange(1), help=f"How many, one after another; {SEEDS} without --seed.")
@click.option(
    "--scheme",
    type=click.Choice([*SCHEME_NAMES, "all", *HISTORY_NAMES]),
    default="swarm",
    show_default=True,
    help="What goes wrong; or a way to rebalance, or all of them.",
)
@click.option("--events", type=click.IntRange(1), default=EVENTS, show_default=True, help="With faults, for each seed.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line.")
@click.option("--html", type=click.Path(path_type=Path), help="Draw ways to rebalance on one page.")
def command(seed: int | None, seeds: int | None, scheme: str, events: int, as_json: bool, html: Path | None) -> None:
    """Run the broker with scripted clients on a pretend network, in virtual time, and check its invariants.

    A seed is a run: the same seed runs the same way everywhere. First things go wrong, then everything heals and every
    group must come to rest, then everybody goes and nothing may be left. Exit 1 with the seed when an invariant is
    broken, with the last events and a smaller script that breaks it too. docs/simulation.md has the invariants.

    all, and each of the names after it: one story of consumers that come, go and crash, of topics that grow and of a
    ZooKeeper server that lags, under the ways to rebalance that Kafka had, and what it costs. Without a seed it is the
    story of docs/history.md.
    """
    if scheme not in SCHEME_NAMES:
        from mockbroker.cli.history_lines import compare

        compare(scheme, seed, seeds, as_json=as_json, html=html)
        return
    if html is not None:
        raise click.UsageError(f"--html draws ways to rebalance: {', '.join(('all', *HISTORY_NAMES))}")
    from mockbroker.lab.simulation.run import repeated, run
    from mockbroker.lab.simulation.schemes import SCHEMES

    first = seed or 0
    count = seeds if seeds is not None else (SEEDS if seed is None else 1)
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    begun, total = time.process_time(), 0
    try:
        with quiet(logging.ERROR):  # a crash leaves torn files, and each would be a warning
            for number in range(first, first + count):
                twice = number % REPEATED == 0 or count == 1
                outcome = (repeated if twice else run)(SCHEMES[scheme](number, events))
                total += outcome.events * (1 + twice)
                if as_json:
                    click.echo(json.dumps(_line(number, scheme, outcome)))
                if outcome.broken:
                    _tell(outcome, as_json=as_json)
                    sys.exit(1)
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
    seconds = time.process_time() - begun
    rate = f"{total / seconds:,.0f} a second" if seconds else "at once"
    click.echo(f"{count} seeds of {scheme}, {total:,} events, {rate}: nothing is broken", err=as_json)


def _line(seed: int, scheme: str, outcome: Outcome) -> dict[str, object]:
    return {
        "seed": seed,
        "scheme": scheme,
        "events": outcome.events,
        "virtual_seconds": round(outcome.seconds, 3),
        "hash": outcome.hash,
        "broken": outcome.broken or None,
        "text": outcome.text or None,
    }


def _tell(outcome: Outcome, *, as_json: bool) -> None:
    """The seed, what is broken, the last events, and what is needed for it."""
    from mockbroker.lab.simulation.shrink import Shrinker

    def say(text: str) -> None:
        click.echo(text, err=as_json)

    say(f"seed {outcome.script.seed} of {outcome.script.scheme}: {outcome.broken} is broken: {outcome.text}")
    say(f"last {len(outcome.last)} of {outcome.events} events:")
    for line in outcome.last:
        say(line)
    shrinker = Shrinker(outcome)
    best = shrinker.shrink()
    script = best.script
    say(
        f"the smallest of {shrinker.attempts} scripts that break {best.broken}: {len(script.members)} members,"
        f" {len(script.faults)} faults, {best.events} events"
    )
    for line in script.lines():
        say(line)
    say(f"{best.broken}: {best.text}")
