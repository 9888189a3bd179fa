"""What ``mockbroker simulate`` prints of schemes of rebalancing: a table, JSON lines, or a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from mockbroker.lab.history import page
from mockbroker.lab.history.comparison import MEANING, SCHEMES, Measured, measure, table
from mockbroker.lab.history.experiments import experiments
from mockbroker.lab.history.story import DEFAULT, Story, drawn
from mockbroker.lab.simulation.watching import Broken

ALL = "all"


def compare(scheme: str, seed: int | None, seeds: int | None, *, as_json: bool, html: Path | None) -> None:
    """One story under one scheme or all of them; without a seed it is the one of docs/history.md."""
    names = list(SCHEMES) if scheme == ALL else [scheme]
    first = seed or 0
    told = seed is None and seeds is None
    stories = [DEFAULT] if told else [drawn(number) for number in range(first, first + (seeds or 1))]
    if html is not None and len(stories) > 1:
        raise click.UsageError("--html draws one story; leave --seeds out")
    found: list[Measured] = []
    for story in stories:
        found = [_measured(name, story) for name in names]
        if as_json:
            for each in found:
                click.echo(json.dumps(each.line()))
        else:
            _tell(story, found)
    if html is not None:
        try:
            page.save(html, stories[0], found, experiments(names))
        except OSError as error:
            click.echo(f"{html}: {error.strerror}", err=True)
            sys.exit(1)


def _measured(name: str, story: Story) -> Measured:
    try:
        return measure(name, story)
    except Broken as error:
        click.echo(f"seed {story.seed} under {name}: {error.name} is broken: {error.text}", err=True)
        sys.exit(1)


def _tell(story: Story, found: Sequence[Measured]) -> None:
    whose = "the story of docs/history.md" if story.seed is None else f"the story of seed {story.seed}"
    click.echo(f"{whose}: {len(story.groups)} consumers, {len(story.steps)} steps, {story.end:g} s")
    for line in table(found):
        click.echo(line)
    if len(found) == 1:
        for change in found[0].changes:
            settled = "never settles" if change.settled is None else f"settles in {change.settled:.2f} s"
            click.echo(
                f"{change.at:6g} s  {change.what}: {change.messages} messages, {change.notifications} notifications,"
                f" {change.rebalances} rebalances, {change.moved} moved, {settled}"
            )
    else:
        click.echo(MEANING)
