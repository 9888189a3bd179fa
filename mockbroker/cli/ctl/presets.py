"""The commands ``mockbroker ctl presets``: show and apply presets (named sets of fault rules and cluster changes)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mockbroker.cli import completion
from mockbroker.cli.control_client import segment
from mockbroker.cli.ctl.session import CtlGroup, Session, pass_session
from mockbroker.cli.tables import cell, escape, table

NUMBERS = ("integer", "times")  # kinds of parameters whose values may be numbers


@click.group("presets", cls=CtlGroup)
def command() -> None:
    """List, show and apply presets of fault rules. The default command is list."""


@command.command("list")
@pass_session
def list_(session: Session) -> None:
    """List the presets."""
    answer = session.client.ask("GET", "/v1/presets")
    session.show_table(
        answer, ("PRESET", "PARAMETERS"), [(each["name"], " ".join(each["parameters"])) for each in answer["items"]]
    )


@command.command("show")
@click.argument("preset", shell_complete=completion.presets)
@pass_session
def show(session: Session, preset: str) -> None:
    """Show the effect of a preset, and its parameters."""
    found = _presets(session).get(preset)
    if found is None:
        raise click.UsageError(f"preset {escape(preset)} does not exist: mockbroker ctl presets lists all")
    session.show(found, lambda: _text(found))


@command.command("run")
@click.argument("preset", shell_complete=completion.presets)
@click.argument("parameters", nargs=-1, metavar="[NAME=VALUE]...")
@pass_session
def run(session: Session, preset: str, parameters: tuple[str, ...]) -> None:
    """Apply a preset, and print the names of its rules. End it with ctl faults remove NAME."""
    declared = _presets(session).get(preset, {}).get("parameters", {})
    body = {}
    for text in parameters:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"{escape(text)} is not a valid parameter: expected NAME=VALUE")
        body[name] = _value(declared.get(name, {}), value)
    answer = session.client.ask("POST", f"/v1/presets/{segment(preset)}", body=body)
    session.show(answer, lambda: "\n".join(map(escape, answer["faults"])))


def _presets(session: Session) -> dict[str, Any]:
    return {each["name"]: each for each in session.client.ask("GET", "/v1/presets")["items"]}


def _value(parameter: Mapping[str, Any], text: str) -> str | int:
    digits = text.removeprefix("-")
    is_number = parameter.get("kind") in NUMBERS and digits.isascii() and digits.isdecimal() and len(digits) < 20
    return int(text) if is_number else text


def _text(preset: Mapping[str, Any]) -> str:
    rows = [
        (name, "required" if each["required"] else each.get("default"), each["description"])
        for name, each in preset["parameters"].items()
    ]
    return f"{cell(preset['name'])}: {escape(preset['description'])}\n\n{table(('PARAMETER', 'DEFAULT', 'IS'), rows)}"
