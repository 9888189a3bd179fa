"""The command ``mockbroker demo``: three kinds of real client share a topic."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import click
import trio

PACKAGES = {"kafka": "kafka-python", "confluent_kafka": "confluent-kafka", "aiokafka": "aiokafka", "rich": "rich"}


@click.command("demo")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per event instead of sentences.")
def command(as_json: bool) -> None:
    """Run three brokers, and three kinds of real client in one group.

    The clients join one after the other, consume and commit. Then one client is closed, another client is killed, and
    the committed offsets are read. The command prints each event, and the checks at the end. The exit code is 1 if a
    check fails.
    """
    missing = [package for module, package in PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise click.UsageError(
            f"the demo requires packages that are not installed ({', '.join(missing)}): pip install 'kwire[demo]'"
        )
    from mockbroker.lab.demo import timeline
    from mockbroker.lab.demo.checks import check_all
    from mockbroker.lab.demo.story import play

    output = timeline.choose(as_json=as_json, write=click.echo)
    checks = check_all(trio.run(play, output))
    output.checks(checks)
    failed = [check for check in checks if not check.held]
    for check in failed:
        click.echo(f"Error: check failed: {check.name}: {check.detail}", err=True)
    sys.exit(1 if failed else 0)
