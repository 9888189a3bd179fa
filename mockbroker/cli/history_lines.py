"""The output of ``mockbroker simulate`` for rebalance protocols: a table, JSON lines, or an HTML page."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from kwire.counted import counted
from mockbroker.lab.history import page
from mockbroker.lab.history.comparison import MEANING, SCHEMES, Measured, measure, table
from mockbroker.lab.history.experiments import experiments
from mockbroker.lab.history.story import DEFAULT, Story, drawn
from mockbroker.lab.simulation.watching import Broken

ALL = "all"


def compare(scheme: str, seed: int | None, seeds: int | None, *, as_json: bool, html: Path | None) -> None:
    """Run scenarios under one or all rebalance protocols, and print the costs of each protocol. If an invariant is
    violated or the page cannot be written, end the command with exit code 1.

    Args:
        scheme: name of the protocol, or ``all``.
        seed: seed of the first scenario. None for seed 0 if ``seeds`` is given, else for the scenario of
            docs/history.md.
        seeds: number of scenarios; None for one.
        as_json: True for JSON lines instead of tables.
        html: file to which a page with charts is written, for one scenario only; None for no page.

    Raises: click.UsageError if ``html`` is given for several scenarios.
    """
    names = list(SCHEMES) if scheme == ALL else [scheme]
    first = seed or 0
    is_default = seed is None and seeds is None
    stories = [DEFAULT] if is_default else [drawn(number) for number in range(first, first + (seeds or 1))]
    if html is not None and len(stories) > 1:
        raise click.UsageError("--html shows only one scenario: remove --seeds")
    results: list[Measured] = []
    for story in stories:
        results = [_measured(name, story) for name in names]
        if as_json:
            for each in results:
                click.echo(json.dumps(each.line()))
        else:
            _print_results(story, results)
    if html is not None:
        try:
            page.save(html, stories[0], results, experiments(names))
        except OSError as error:
            click.echo(f"Error: --html {html}: cannot write the file: {error.strerror}", err=True)
            sys.exit(1)


def _measured(name: str, story: Story) -> Measured:
    try:
        return measure(name, story)
    except Broken as error:
        click.echo(f"Error: seed {story.seed} under {name}: invariant {error.name} is broken: {error.text}", err=True)
        sys.exit(1)


def _print_results(story: Story, results: Sequence[Measured]) -> None:
    title = "the story of docs/history.md" if story.seed is None else f"the story of seed {story.seed}"
    click.echo(
        f"{title}: {counted(len(story.groups), 'consumer')}, {counted(len(story.steps), 'step')}, {story.end:g} s"
    )
    for line in table(results):
        click.echo(line)
    if len(results) == 1:
        for change in results[0].changes:
            settled = "never settles" if change.settled is None else f"settles in {change.settled:.2f} s"
            click.echo(
                f"{change.at:6g} s  {change.what}: {change.messages} messages, "
                f"{counted(change.notifications, 'ZooKeeper notification')}, "
                f"{counted(change.rebalances, 'rebalance')}, {counted(change.moved, 'partition')} moved, {settled}"
            )
    else:
        click.echo(MEANING)
