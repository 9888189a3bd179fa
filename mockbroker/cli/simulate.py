"""The command ``mockbroker simulate``: runs the broker with seeded clients and faults in virtual time."""

from __future__ import annotations

import gc
import json
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kwire.counted import counted
from mockbroker.cli.quiet import quiet

if TYPE_CHECKING:
    from mockbroker.lab.simulation.run import Outcome

REPEAT_INTERVAL = 25  # every 25th seed is run twice, and both runs must be identical
SEEDS, EVENTS = 100, 1_000
CANDIDATES = 4  # seeds of which --steer runs one
COLLECT_AFTER = (200_000, 20, 20)  # for gc.set_threshold; with the default, collections take a quarter of the run time
# Names of lab.simulation.schemes, not imported so that --help is fast.
SCHEME_NAMES = (
    "swarm",
    "lite",
    "calm",
    "rules",
    "migration",
    "streams",
    "shares",
    "data",
    "admin",
    "mix",
    "bytes",
    "upkeep",
)
HISTORY_NAMES = (
    "zookeeper",
    "server",
    "draft",
    "classic",
    "cooperative",
    "consumer",
)  # of lab.history.comparison, not imported either


@click.command("simulate")
@click.option("--seed", type=click.IntRange(0), help="First seed. Without --seeds, run only this one.")
@click.option("--seeds", type=click.IntRange(1), help=f"Number of consecutive seeds; {SEEDS} without --seed.")
@click.option(
    "--scheme",
    type=click.Choice([*SCHEME_NAMES, "all", *HISTORY_NAMES]),
    default="swarm",
    show_default=True,
    help="Fault scheme; or a rebalance protocol to measure, or all for all protocols.",
)
@click.option(
    "--events",
    type=click.IntRange(1),
    default=EVENTS,
    show_default=True,
    help="Number of events per seed during which faults occur.",
)
@click.option(
    "--coverage", "show_coverage", is_flag=True, help="Print how often each event and fault occurred in each state."
)
@click.option("--steer", is_flag=True, help=f"Run one of {CANDIDATES} seeds: the one with the rarest faults.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per seed.")
@click.option(
    "--html", type=click.Path(path_type=Path), help="Write charts of the rebalance protocols to this HTML file."
)
def command(
    seed: int | None,
    seeds: int | None,
    scheme: str,
    events: int,
    show_coverage: bool,
    steer: bool,
    as_json: bool,
    html: Path | None,
) -> None:
    """Run the broker with scripted clients on a simulated network in virtual time, and check its invariants.

    The same seed gives the same run on every machine. Each run has three phases: first faults occur; then they stop,
    and every group must become stable; finally all clients leave, and the broker must be empty. If an invariant is
    violated, the command prints the seed, the last events and a smaller script that violates the same invariant, and
    the exit code is 1. docs/simulation.md lists the invariants.

    With --coverage, the command also counts how often each request arrived in each state of groups and transactions
    after each fault. With --steer, it prefers seeds whose faults have reached the fewest states so far.

    With the scheme zookeeper, server, draft, classic, cooperative, consumer or all, the command instead runs one
    scenario under these rebalance protocols of Kafka's history and prints the costs: consumers join, leave and crash,
    topics get partitions, and a ZooKeeper server lags. Without --seed, it is the scenario of docs/history.md.
    """
    if scheme not in SCHEME_NAMES:
        source = click.get_current_context().get_parameter_source
        for name in ("events", "show_coverage", "steer"):
            if source(name) is not ParameterSource.DEFAULT:
                raise click.UsageError(
                    f"--{name.removeprefix('show_')} has no effect with the rebalance protocols: remove it, or use "
                    f"--scheme with one of {', '.join(SCHEME_NAMES)}"
                )
        from mockbroker.cli.history_lines import compare

        compare(scheme, seed, seeds, as_json=as_json, html=html)
        return
    if html is not None:
        raise click.UsageError(
            f"--html needs a rebalance protocol: use --scheme with one of {', '.join(('all', *HISTORY_NAMES))}"
        )
    from mockbroker.lab.simulation.coverage import Coverage
    from mockbroker.lab.simulation.run import repeated, run
    from mockbroker.lab.simulation.schemes import SCHEMES

    coverage = Coverage() if show_coverage or steer else None
    first = seed or 0
    count = seeds if seeds is not None else (SEEDS if seed is None else 1)
    default_threshold = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    start, total = time.process_time(), 0
    try:
        with quiet(logging.ERROR):  # crashes leave torn files, and each one would log a warning
            for number in range(first, first + count):
                twice = number % REPEAT_INTERVAL == 0 or count == 1
                script = SCHEMES[scheme](number, events)
                if coverage is not None and steer:
                    numbers = range(first + CANDIDATES * (number - first), first + CANDIDATES * (number - first + 1))
                    script = coverage.steer(SCHEMES[scheme](candidate, events) for candidate in numbers)
                outcome = (repeated if twice else run)(script, coverage)
                total += outcome.events * (1 + twice)
                gc.collect(1)  # the next run uses the memory of this one, which the processor has cached
                if as_json:
                    click.echo(json.dumps(_line(script.seed, scheme, outcome)))
                if outcome.broken:
                    _report_failure(outcome, as_json=as_json)
                    sys.exit(1)
    finally:
        gc.set_threshold(*default_threshold)
        gc.unfreeze()
    seconds = time.process_time() - start
    rate = f"{total / seconds:,.0f} a CPU second" if seconds else "at once"
    if coverage is not None and show_coverage:
        click.echo(json.dumps({"coverage": coverage.rows()}) if as_json else "\n".join(coverage.lines()))
    click.echo(
        f"{counted(count, 'seed')} of {scheme}, {counted(total, 'event', ',')}, {rate}: no invariant was broken",
        err=as_json,
    )


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


def _report_failure(outcome: Outcome, *, as_json: bool) -> None:
    """Print a violated invariant, the seed, the last events, and the smallest script that violates the invariant."""
    from mockbroker.lab.simulation.shrink import Shrinker

    def write(text: str) -> None:
        click.echo(text, err=as_json)

    write(f"seed {outcome.script.seed} of {outcome.script.scheme}: {outcome.broken} is broken: {outcome.text}")
    write(f"last {len(outcome.last)} of {outcome.events} events:")
    for line in outcome.last:
        write(line)
    shrinker = Shrinker(outcome)
    best = shrinker.shrink()
    script = best.script
    write(
        f"the smallest of {shrinker.attempts} scripts that break {best.broken}: "
        f"{counted(len(script.members), 'member')}, {counted(len(script.faults), 'fault')}, "
        f"{counted(best.events, 'event')}"
    )
    for line in script.lines():
        write(line)
    write(f"{best.broken}: {best.text}")
