"""The commands ``mockbroker ctl faults``: add, list, remove and release fault rules."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from mockbroker.api.fault_options import rule_form
from mockbroker.cli import completion
from mockbroker.cli.control_client import segment
from mockbroker.cli.ctl.rule_options import rule_options
from mockbroker.cli.ctl.session import CtlGroup, Session, pass_session, timeout_option
from mockbroker.cli.rule_files import RuleFileError, read_rules, rules_of
from mockbroker.cli.tables import cell, escape

HEADER = ("NAME", "MATCH", "OCCURRENCE", "ACTION", "MATCHED", "APPLIED", "HOLDING", "EXHAUSTED")


@click.group("faults", cls=CtlGroup)
def command() -> None:
    """Add, list, remove and release fault rules; wait for them. The default command is list."""


@command.command("list")
@pass_session
def list_(session: Session) -> None:
    """List the fault rules in the order in which they are tried."""
    _show(session, session.client.pages("/v1/faults"))


@command.command("add")
@click.argument("rule", required=False)
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Add all rules of a TOML, YAML or JSON file, as serve --faults.",
)
@click.option("--replace", is_flag=True, help="Replace a rule that has the same name.")
@rule_options
@pass_session
def add(session: Session, rule: str | None, file: Path | None, replace: bool, options: Mapping[str, Any]) -> None:
    """Add a fault rule, and print its name.

    Give the rule by options, as JSON in RULE (- reads it from stdin), or in a file with --file. The options are the
    conditions, occurrence and action of a rule, as in docs/faults.md.
    """
    if sum([rule is not None, file is not None, bool(options)]) != 1:
        raise click.UsageError("expected exactly one of these: RULE, --file FILE, options such as --api and --error")
    for form in _forms(rule, file, options):
        name = form.get("name") if isinstance(form, dict) else None
        if replace and not isinstance(name, str):
            raise click.UsageError(
                "--replace needs the name of the rule: use --name NAME, or the key 'name' in the rule"
            )
        path = f"/v1/faults/{segment(name)}" if replace else "/v1/faults"
        answer = session.client.ask("PUT" if replace else "POST", path, body=form)
        session.show(answer, escape(answer["name"]))
        if not session.as_json:
            for each in answer["warnings"]:
                click.echo(f"warning: {escape(each['path'])}: {escape(each['detail'])}", err=True)


@command.command("show")
@click.argument("name", shell_complete=completion.faults)
@pass_session
def show(session: Session, name: str) -> None:
    """Show a fault rule and its counters."""
    _show_one(session, session.client.ask("GET", f"/v1/faults/{segment(name)}"))


@command.command("remove")
@click.argument("names", nargs=-1, metavar="NAME...", shell_complete=completion.faults)
@click.option("--all", "all_", is_flag=True, help="Remove all rules.")
@pass_session
def remove(session: Session, names: tuple[str, ...], all_: bool) -> None:
    """Remove fault rules, and release what they hold or delay. NAME may have the wildcards * and ?."""
    if all_ == bool(names):
        raise click.UsageError("expected either the names of the rules to remove, or --all")
    for name in ["*"] if all_ else names:
        if {"*", "?"}.intersection(name):
            session.client.ask("DELETE", "/v1/faults", query={"name": name})
        else:
            session.client.ask("DELETE", f"/v1/faults/{segment(name)}")
        session.note(f"removed {escape(name)}")


@command.command("release")
@click.argument("name", shell_complete=completion.faults)
@click.option("--count", type=click.IntRange(1), help="Maximum number of requests; all that are held if absent.")
@pass_session
def release(session: Session, name: str, count: int | None) -> None:
    """Release requests that a fault rule holds."""
    body = {} if count is None else {"count": count}
    answer = session.client.ask("POST", f"/v1/faults/{segment(name)}/release", body=body)
    session.show(answer, f"released {answer['released']}")


@command.command("wait")
@click.argument("name", shell_complete=completion.faults)
@click.option(
    "--applied", type=click.IntRange(1), help="Number of requests that the rule was applied to (1 without --holding)."
)
@click.option("--holding", type=click.IntRange(1), help="Number of requests that the rule holds.")
@timeout_option
@pass_session
def wait(session: Session, name: str, applied: int | None, holding: int | None, timeout_ms: int) -> None:
    """Wait until a rule was applied, or holds requests, and show it."""
    if applied is None and holding is None:
        applied = 1
    query = {"applied": applied, "holding": holding, "timeout_ms": timeout_ms}
    _show_one(session, session.client.ask("GET", f"/v1/faults/{segment(name)}/wait", query=query, wait_ms=timeout_ms))


def _forms(rule: str | None, file: Path | None, options: Mapping[str, Any]) -> list[Any]:
    """Return the rules that the arguments of ``ctl faults add`` describe, in the JSON form of the control API.

    Exactly one of the three is given.

    Args:
        rule: the argument RULE: JSON, or ``-`` for stdin; None if it was not given.
        file: value of --file; None if it was not given.
        options: values of the options for one rule, such as --api, by name; empty if none was given.

    Raises:
        click.UsageError: The file or the JSON text is not valid.
    """
    try:
        if file is not None:
            return read_rules(file)
        if rule is not None:
            text = sys.stdin.read() if rule == "-" else rule
            return rules_of(json.loads(text))
    except RuleFileError as error:
        raise click.UsageError(f"--file {file}: {error}" if file else f"RULE: {error}") from error
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"RULE is not valid JSON: {error}") from error
    return [rule_form(options)]


def _show(session: Session, answer: Mapping[str, Any]) -> None:
    rows = [
        (
            each["name"],
            _words(each["match"]),
            _words(each.get("occurrence", {})),
            _words(each["action"]),
            each["matched"],
            each["applied"],
            each["holding"],
            each["exhausted"],
        )
        for each in answer["items"]
    ]
    session.show_table(answer, HEADER, rows)


def _show_one(session: Session, fault: Mapping[str, Any]) -> None:
    counters = ", ".join(f"{name} {fault[name]}" for name in ("matched", "applied", "holding"))
    parts = [f"{cell(fault['name'])}: {counters}{', exhausted' if fault['exhausted'] else ''}"]
    parts += [
        f"  {part}: {escape(_words(fault[part]))}" for part in ("match", "occurrence", "action") if fault.get(part)
    ]
    session.show(fault, "\n".join(parts))


def _words(section: Mapping[str, Any]) -> str:
    """Return a JSON object in a rule, such as its conditions, as a text of ``name=value`` pairs."""
    return " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in section.items()
    )
