"""``mockbroker demo``: watch three kinds of real client share a topic."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import click
import trio

NEEDS = {"kafka": "kafka-python", "confluent_kafka": "confluent-kafka", "aiokafka": "aiokafka", "rich": "rich"}


@click.command("demo")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line instead of sentences.")
def command(as_json: bool) -> None:
    """Three brokers, and three kinds of real client in one group.

    They join one after the other, read, commit; one is stopped politely, one is killed; then the offsets are read
    back. Prints what happens, and at the end whether all of it was as it should be; exit 0 only if it was.
    """
    missing = [package for module, package in NEEDS.items() if find_spec(module) is None]
    if missing:
        raise click.UsageError(f"the demo needs {', '.join(missing)}: pip install 'kwire[demo]'")
    from mockbroker.lab.demo import timeline
    from mockbroker.lab.demo.checks import check_all
    from mockbroker.lab.demo.story import play

    told = timeline.choose(as_json=as_json, write=click.echo)
    checks = check_all(trio.run(play, told))
    told.checks(checks)
    failed = [check for check in checks if not check.held]
    for check in failed:
        click.echo(f"mockbroker: check failed: {check.name}: {check.detail}", err=True)
    sys.exit(1 if failed else 0)
