"""The commands ``mockbroker ctl groups``: show and change groups, their members and committed offsets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from mockbroker.cli import completion
from mockbroker.cli.control_client import segment
from mockbroker.cli.ctl.session import CtlGroup, Session, pass_session, timeout_option
from mockbroker.cli.tables import cell, escape, table

HEADER = ("GROUP", "TYPE", "STATE", "GENERATION", "MEMBERS", "LAG", "COORDINATOR")


@click.group("groups", cls=CtlGroup)
def command() -> None:
    """Show, wait for and change groups. The default command is list."""


@command.command("list")
@pass_session
def list_(session: Session) -> None:
    """List the groups. LAG is the sum over all partitions with a committed offset."""
    answer = session.client.pages("/v1/groups")
    rows = [
        (
            each["id"],
            each["type"],
            each["state"],
            each["generation"],
            len(each["members"]),
            total_lag(each),
            each["coordinator"],
        )
        for each in answer["items"]
    ]
    session.show_table(answer, HEADER, rows)


@command.command("show")
@click.argument("group", shell_complete=completion.groups)
@pass_session
def show(session: Session, group: str) -> None:
    """Show a group with its members and committed offsets."""
    _show(session, session.client.ask("GET", _path(group)))


@command.command("wait")
@click.argument("group", shell_complete=completion.groups)
@click.option("--state", help="State of the group, such as Stable; any state but Dead if absent.")
@click.option("--members", type=click.IntRange(0), help="Number of members.")
@click.option("--min-generation", type=click.IntRange(0), help="Minimum generation or epoch of the group.")
@timeout_option
@pass_session
def wait(
    session: Session, group: str, state: str | None, members: int | None, min_generation: int | None, timeout_ms: int
) -> None:
    """Wait until a group meets all conditions, and show it."""
    query = {"state": state, "members": members, "min_generation": min_generation, "timeout_ms": timeout_ms}
    _show(session, session.client.ask("GET", f"{_path(group)}/wait", query=query, wait_ms=timeout_ms))


@command.command("rebalance")
@click.argument("group", shell_complete=completion.groups)
@click.option("--reason", help="Reason for the journal.")
@pass_session
def rebalance(session: Session, group: str, reason: str | None) -> None:
    """Start a rebalance of a group, and show the group."""
    body = {} if reason is None else {"reason": reason}
    _show(session, session.client.ask("POST", f"{_path(group)}/rebalance", body=body))


@command.command("evict")
@click.argument("group", shell_complete=completion.groups)
@click.argument("member")
@click.option("--reason", help="Reason for the journal.")
@pass_session
def evict(session: Session, group: str, member: str, reason: str | None) -> None:
    """Evict the member with the member id MEMBER from a group."""
    session.client.ask("DELETE", f"{_path(group)}/members/{segment(member)}", query={"reason": reason})
    session.note(f"evicted {escape(member)}")


@command.command("set-offsets")
@click.argument("group", shell_complete=completion.groups)
@click.argument("offsets", nargs=-1, required=True, metavar="TOPIC:PARTITION=OFFSET...")
@pass_session
def set_offsets(session: Session, group: str, offsets: tuple[str, ...]) -> None:
    """Set committed offsets of a group, and show the group. A group that does not exist is created."""
    body = {"offsets": [_offset(text) for text in offsets]}
    _show(session, session.client.ask("PUT", f"{_path(group)}/offsets", body=body))


@command.command("move-coordinator")
@click.argument("group", shell_complete=completion.groups)
@click.argument("broker", type=int)
@pass_session
def move_coordinator(session: Session, group: str, broker: int) -> None:
    """Make another broker the coordinator of a group."""
    answer = session.client.ask("POST", f"{_path(group)}/coordinator", body={"broker": broker})
    session.show(answer, f"the coordinator of {escape(answer['group'])} is broker {answer['coordinator']}")


def total_lag(group: Mapping[str, Any]) -> int:
    """Return the sum of the lags of a group's partitions. ``group``: the group as the control API returns it."""
    return sum(each["lag"] or 0 for each in group["offsets"])


def partitions(assignment: Mapping[str, Any] | None) -> str | None:
    """Return an assignment as text, such as ``orders:0,1``; None without an assignment."""
    if assignment is None:
        return None
    return " ".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in assignment.items() if indexes)


def tasks(by_type: Mapping[str, Any] | None) -> str | None:
    """Return the tasks of a member as text, such as ``active 0:0,1 standby 1:2``; None if its group has no tasks."""
    if by_type is None:
        return None
    return " ".join(f"{name} {partitions(each)}" for name, each in by_type.items() if each)


def _path(group: str) -> str:
    return f"/v1/groups/{segment(group)}"


def _offset(text: str) -> dict[str, Any]:
    found = re.fullmatch(r"([^:=]+):(\d{1,10})=(\d{1,19})", text, re.ASCII)
    if not found:
        raise click.UsageError(f"{escape(text)} is not a valid offset: expected TOPIC:PARTITION=OFFSET")
    return {"topic": found[1], "partition": int(found[2]), "offset": int(found[3])}


def _show(session: Session, group: Mapping[str, Any]) -> None:
    session.show(group, lambda: _text(group))


def _text(group: Mapping[str, Any]) -> str:
    names = ("type", "state", "generation", "epoch", "protocol", "leader", "coordinator")
    facts = [f"{name} {cell(group[name])}" for name in names if name in group]
    parts = [f"group {cell(group['id'])}: {', '.join(facts)}"]
    if group["members"]:
        has_tasks = any("tasks" in each for each in group["members"])
        header = ("MEMBER", "INSTANCE", "CLIENT ID", "HOST", "SUBSCRIPTION", "ASSIGNMENT", "LAST HEARTBEAT")
        rows = [
            (
                each["member_id"],
                each["instance_id"],
                each["client_id"],
                each["host"],
                _names(each["subscription"]),
                partitions(each["assignment"]),
                each["last_heartbeat"],
                *([tasks(each.get("tasks"))] if has_tasks else []),
            )
            for each in group["members"]
        ]
        parts.append(table((*header, "TASKS") if has_tasks else header, rows))
    if group["offsets"]:
        columns = ("topic", "partition", "offset", "lag", "metadata")
        rows_of_offsets = [[each[name] for name in columns] for each in group["offsets"]]
        parts.append(table([name.upper() for name in columns], rows_of_offsets))
    return "\n\n".join(parts)


def _names(subscription: list[str] | None) -> str | None:
    return None if subscription is None else ",".join(subscription)
