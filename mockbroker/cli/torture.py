"""The command ``mockbroker torture``: runs a client against hostile brokers."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event

import click

from kwire.command import FiniteRange, one_line
from kwire.completion import api_names, complete
from kwire.extras import missing
from mockbroker.cli.completion import case_names
from mockbroker.cli.end_signals import exiting
from mockbroker.cli.quiet import SILENT, quiet
from mockbroker.lab.torture.security import MECHANISMS, PROTOCOLS, Mechanism, Protocol, Security


@click.command("torture")
@click.argument("client", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND...")
@click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="NAME",
    shell_complete=complete(case_names),
    help="Only this case; * and ? are wildcards.",
)
@click.option(
    "--step",
    "steps",
    multiple=True,
    metavar="API",
    shell_complete=complete(api_names),
    help="Only the cases of this step, such as Fetch.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random numbers of the cases.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Number of cases that run at the same time.",
)
@click.option(
    "--topic",
    default="torture",
    show_default=True,
    help="Topic to which records are appended, and value of MOCKBROKER_TOPIC.",
)
@click.option(
    "--security-protocol",
    type=click.Choice(PROTOCOLS, case_sensitive=False),
    default="PLAINTEXT",
    show_default=True,
    help="Protocol of the broker's listener: MOCKBROKER_SECURITY_PROTOCOL.",
)
@click.option(
    "--sasl-mechanism",
    type=click.Choice(MECHANISMS, case_sensitive=False),
    default="SCRAM-SHA-256",
    show_default=True,
    help="SASL mechanism of the client: MOCKBROKER_SASL_MECHANISM.",
)
@click.option(
    "--bad", type=FiniteRange(0.1), default=5.0, show_default=True, help="Seconds for which the broker misbehaves."
)
@click.option(
    "--recovery",
    type=FiniteRange(0.1),
    default=30.0,
    show_default=True,
    help="Seconds after which a client that does not work again is stuck.",
)
@click.option(
    "--memory",
    type=click.IntRange(1),
    default=512,
    show_default=True,
    help="Growth of memory, in megabytes, from which the result is grew.",
)
@click.option(
    "--start",
    type=FiniteRange(0.1),
    default=20.0,
    show_default=True,
    help="Seconds within which a client must work with a correct broker.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per case.")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Also write JUnit XML to this file.")
@click.option("--list", "only_list", is_flag=True, help="Print the cases, and run none.")
def command(
    client: tuple[str, ...],
    cases: tuple[str, ...],
    steps: tuple[str, ...],
    seed: int,
    jobs: int,
    topic: str,
    security_protocol: Protocol,
    sasl_mechanism: Mechanism,
    bad: float,
    recovery: float,
    memory: int,
    start: float,
    as_json: bool,
    junit: Path | None,
    only_list: bool,
) -> None:
    """Run a client against hostile brokers, and print whether it survives.

    COMMAND is started once for each case. Environment variables contain the address of a broker
    (MOCKBROKER_BOOTSTRAP_SERVERS), a topic to which records are appended continuously (MOCKBROKER_TOPIC) and a group id
    (MOCKBROKER_GROUP). COMMAND must consume from the topic, or produce to it, in a loop. The broker misbehaves at one
    step of the session, and is correct again after a few seconds. Each case has one of these results:

    \b
    survived  the client works again, or exits with code 0
    refused   the client exits with an error that it reports itself
    stuck     the client keeps running, but does not work again
    crashed   a signal or a fatal error of its runtime ends the client
    grew      the client uses too much memory, and is killed
    skipped   the client never reaches the step

    First, the client runs against a correct broker, which shows the steps that it takes and its memory use. The exit
    code is 1 if a case is stuck, crashed or grew.

    \b
    mockbroker torture --case 'Metadata-*' -- python consumer.py
    """
    from mockbroker.lab.torture.catalogue import select, unmatched

    if (unknown := unmatched(cases)) is not None:
        raise click.UsageError(f"--case {unknown}: no case has this name: --list prints all cases")
    chosen = select(cases or ("*",), steps)
    if not chosen:
        raise click.UsageError("no case matches the given names and steps: --list prints all cases")
    if only_list:
        for case in chosen:
            click.echo(f"{case.name:<48} {case.step:<24} {case.description}")
        return
    if not client:
        raise click.UsageError("expected the command of a client, such as: mockbroker torture -- python app.py")
    try:
        from mockbroker.lab.torture import report
        from mockbroker.lab.torture.runner import (
            BAD,
            MEGABYTE,
            Client,
            Limits,
            Result,
            UnhealthyClientError,
            applies,
            examine,
            run,
        )
    except ModuleNotFoundError as error:
        raise click.ClickException(str(missing(error, "torture"))) from error
    limits = Limits(start=start, bad=bad, recovery=recovery, memory=memory * MEGABYTE)
    tested = Client(client, topic, security=Security(security_protocol, sasl_mechanism))
    results: list[Result] = []
    # A client is never started in the main thread: a KeyboardInterrupt could lose it between its start and its handle.
    stop = Event()
    with exiting(), quiet(SILENT), ThreadPoolExecutor(jobs) as pool:
        try:
            try:
                health = pool.submit(examine, tested, limits, stop).result()
            except (FileNotFoundError, PermissionError) as error:
                raise click.UsageError(f"cannot start {one_line(client[0])}: {error.strerror}") from error
            except (UnhealthyClientError, OSError) as error:
                raise click.ClickException(str(error)) from error
            todo = [case for case in chosen if applies(case, health)]
            runs = [pool.submit(run, case, tested, health, limits, seed, stop) for case in todo]
            for finished in as_completed(runs):
                result = finished.result()
                results.append(result)
                if as_json:
                    click.echo(json.dumps(result.to_json()))
                    continue
                click.echo(report.line(result))
                if result.verdict in BAD:
                    click.echo("\n".join(report.details(result)))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    if junit is not None:
        junit.write_text(report.junit(results), encoding="utf-8")
    absent = len(chosen) - len(todo)
    not_taken = f"; {absent} cases of steps that the client does not take" if absent else ""
    click.echo(f"{report.summary(results)}{not_taken}", err=True)
    sys.exit(1 if any(result.verdict in BAD for result in results) else 0)
