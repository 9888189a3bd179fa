"""The command ``kwire fuzz``, which sends malformed requests to a broker and checks that the broker survives."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import click
from click.core import ParameterSource

from kwire.completion import api_names, complete
from kwire.counted import counted
from kwire.fuzz.findings import KINDS, Finding, FindingError
from kwire.fuzz.live import BrokerError, Fuzzer
from kwire.messages import api_named

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
EVERY = 100  # cases between progress lines


@click.command("fuzz")
@click.argument("broker", metavar="HOST:PORT")
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Seed of the random numbers; the same seed sends the same requests.",
)
@click.option("--count", type=click.IntRange(min=1), default=1_000, show_default=True, help="Number of test cases.")
@click.option("--api", metavar="NAME", shell_complete=complete(api_names), help="Mutate requests of this API only.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON line per finding, and a summary at the end.")
@click.option(
    "--save", type=click.Path(file_okay=False, path_type=Path), help="Write each finding to a file in this folder."
)
@click.option(
    "--replay",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Only reproduce the finding in this file.",
)
def command(
    broker: str, seed: int, count: int, api: str | None, as_json: bool, save: Path | None, replay: Path | None
) -> None:
    """Send malformed requests to a broker and check that it survives.

    In each test case, a consumer connects, joins a new group and sends one malformed request. The broker should
    respond to the request or close the connection. Then a second client checks that the broker still serves this client
    and its group. A finding is a failure of the broker: a crash, a hang, a changed group of the second client, a
    response that cannot be decoded, or a wrong correlation id. Each finding is reduced to few requests. --replay sends
    the requests of a finding again, with no option but --json.

    Use this command only on brokers that may crash. It creates a topic and groups, all named kwfuzz-*.

    \b
    kwire fuzz 127.0.0.1:9092 --count 5000 --save findings
    kwire fuzz 127.0.0.1:9092 --replay findings/hang-0-17.json

    The exit code is 1 if there was a finding.
    """
    address = _address(broker)
    if replay is not None:
        _check_options_of_replay()
    key = _key(api)
    earlier = _finding(replay) if replay else None
    _check_folder(save)
    try:
        fuzzer = Fuzzer(address, seed, key)
    except BrokerError as error:
        raise click.ClickException(str(error)) from error
    try:
        if earlier is not None:
            _replay(fuzzer, earlier, as_json)
        else:
            _run(fuzzer, seed, count, as_json, save)
    except BrokerError as error:
        raise click.ClickException(str(error)) from error
    finally:
        fuzzer.close()
    sys.exit(1 if fuzzer.findings else 0)


def _check_options_of_replay() -> None:
    """Raise click.UsageError if there is an option that has no effect on a replay."""
    context = click.get_current_context()
    for name in ("seed", "count", "api", "save"):
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"--replay cannot be combined with --{name}")


def _run(fuzzer: Fuzzer, seed: int, count: int, as_json: bool, save: Path | None) -> None:
    began = time.monotonic()
    for done, finding in enumerate(fuzzer.run(range(count)), 1):
        if finding is not None:
            _report(finding, as_json, save)
        if done % EVERY == 0:
            click.echo(f"{done} of {count} cases done, {counted(fuzzer.findings, 'finding')} so far", err=True)
    summary = {
        **{name: fuzzer.counts[name] for name in ("cases", "answered", "closed", "silent")},
        "findings": fuzzer.findings,
        "errors": dict(fuzzer.errors.most_common()),
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
    }
    if as_json:
        click.echo(json.dumps({"summary": summary}))
        return
    click.echo(
        "{cases} cases with seed {seed} in {seconds} s: malformed requests answered {answered}, "
        "closed {closed}, silent {silent}; findings {findings}".format(**summary)
    )


def _report(finding: Finding, as_json: bool, save: Path | None) -> None:
    """Print a finding, then write it to its file, so that a failed write does not lose the finding."""
    if as_json:
        click.echo(json.dumps(finding.to_json()))
    else:
        click.echo(f"{finding.kind} in case {finding.case}, {counted(len(finding.steps), 'step')}: {finding.detail}")
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        path = save / f"{finding.kind}-{finding.seed}-{finding.case}.json"
        path.write_text(json.dumps(finding.to_json(), indent=1) + "\n", encoding="utf-8")


def _check_folder(save: Path | None) -> None:
    """Check before a run that the folder for its findings can be created. Raises: click.UsageError."""
    if save is None:
        return
    existing = next(path for path in (save, *save.parents) if os.path.exists(path))
    if not (os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK)):
        raise click.UsageError(f"--save: cannot write {save}: {existing} is not a writable folder")


def _replay(fuzzer: Fuzzer, earlier: Finding, as_json: bool) -> None:
    trouble = fuzzer.replay(earlier)
    fuzzer.findings += trouble is not None
    if as_json:
        now = None if trouble is None else {"kind": trouble.kind, "detail": trouble.detail}
        click.echo(json.dumps({"then": {"kind": earlier.kind, "detail": earlier.detail}, "now": now}))
    elif trouble is None:
        click.echo(f"not reproduced: {earlier.kind}: {KINDS[earlier.kind]}")
    else:
        click.echo(
            f"reproduced: {trouble.kind}: {trouble.detail}"
            if trouble.kind == earlier.kind
            else f"another failure: {trouble.kind}: {trouble.detail}"
        )


def _address(broker: str) -> tuple[str, int]:
    host, colon, port = broker.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise click.UsageError(f"{broker}: expected HOST:PORT, such as 127.0.0.1:9092")
    return host.strip("[]"), int(port)


def _key(api: str | None) -> int | None:
    if api is None:
        return None
    try:
        return api_named(api).key
    except KeyError:
        raise click.UsageError(f"--api: unknown API {api!r}; `kwire apis` lists all") from None


def _finding(path: Path) -> Finding:
    try:
        return Finding.from_json(path.read_bytes())
    except (FindingError, OSError) as error:
        raise click.UsageError(f"--replay {path}: {error}") from None
