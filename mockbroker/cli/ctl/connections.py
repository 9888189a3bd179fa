"""The commands ``mockbroker ctl connections``: list and close the connections of Kafka clients."""

from __future__ import annotations

import click

from mockbroker.cli.ctl.session import CtlGroup, Session, pass_session

COLUMNS = ("id", "client_id", "address", "listener", "broker", "principal", "requests", "since")


@click.group("connections", cls=CtlGroup)
def command() -> None:
    """List and close the connections of clients. The default command is list."""


@command.command("list")
@pass_session
def list_(session: Session) -> None:
    """List the connections of clients."""
    answer = session.client.pages("/v1/connections")
    header = [name.upper().replace("_", " ") for name in COLUMNS]
    session.show_table(answer, header, [[each[name] for name in COLUMNS] for each in answer["items"]])


@command.command("close")
@click.argument("connection", type=int)
@click.option("--reset", is_flag=True, help="Send a TCP reset instead of the responses that are finished.")
@pass_session
def close(session: Session, connection: int, reset: bool) -> None:
    """Close the connection with the id CONNECTION."""
    session.client.ask("DELETE", f"/v1/connections/{connection}", query={"reset": reset})
    session.note(f"closed connection {connection}")
