"""The commands ``mockbroker ctl brokers``: stop, kill and start brokers, and freeze their metadata."""

from __future__ import annotations

import click

from mockbroker.cli.ctl.session import CtlGroup, Session, pass_session


@click.group("brokers", cls=CtlGroup)
def command() -> None:
    """Stop, kill and start brokers; freeze their metadata. The default command is list."""


@command.command("list")
@pass_session
def list_(session: Session) -> None:
    """List the brokers of the cluster."""
    answer = session.client.ask("GET", "/v1/cluster")
    rows = [(each["id"], each["host"], each["port"], each["state"]) for each in answer["brokers"]]
    session.show_table(answer, ("ID", "HOST", "PORT", "STATE"), rows)


@command.command("stop")
@click.argument("broker", type=int)
@pass_session
def stop(session: Session, broker: int) -> None:
    """Stop a broker: it moves its leaders and coordinators first."""
    _act(session, broker, "stop")


@command.command("kill")
@click.argument("broker", type=int)
@click.option(
    "--noticed-after-ms", type=click.IntRange(0), help="Time until the other brokers elect new leaders (default: 0)."
)
@pass_session
def kill(session: Session, broker: int, noticed_after_ms: int | None) -> None:
    """Kill a broker: its connections are reset."""
    _act(session, broker, "kill", noticed_after_ms)


@command.command("start")
@click.argument("broker", type=int)
@pass_session
def start(session: Session, broker: int) -> None:
    """Start a stopped or killed broker."""
    _act(session, broker, "start")


@command.command("freeze")
@click.argument("broker", type=int)
@pass_session
def freeze(session: Session, broker: int) -> None:
    """Freeze the metadata that a broker returns, until thaw."""
    _act(session, broker, "freeze_metadata")


@command.command("thaw")
@click.argument("broker", type=int)
@pass_session
def thaw(session: Session, broker: int) -> None:
    """End a freeze: the broker returns up-to-date metadata again."""
    _act(session, broker, "thaw_metadata")


def _act(session: Session, broker: int, action: str, noticed_after_ms: int | None = None) -> None:
    body = {"action": action} | ({} if noticed_after_ms is None else {"noticed_after_ms": noticed_after_ms})
    answer = session.client.ask("POST", f"/v1/brokers/{broker}", body=body)
    session.show(answer, f"broker {answer['id']} is {answer['state']}")
