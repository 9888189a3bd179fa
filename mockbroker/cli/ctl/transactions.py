"""The command ``mockbroker ctl transactions``: show transactional ids and their transactions."""

from __future__ import annotations

import click

from mockbroker.cli.ctl.session import CtlCommand, Session, pass_session

HEADER = ("TRANSACTIONAL ID", "PRODUCER ID", "EPOCH", "STATE", "PARTITIONS", "COORDINATOR")


@click.command("transactions", cls=CtlCommand)
@pass_session
def command(session: Session) -> None:
    """List the transactional ids and their transactions."""
    answer = session.client.pages("/v1/transactions")
    rows = [
        (
            each["transactional_id"],
            each["producer_id"],
            each["epoch"],
            each["state"],
            " ".join(f"{part['topic']}:{part['partition']}" for part in each["partitions"]),
            each["coordinator"],
        )
        for each in answer["items"]
    ]
    session.show_table(answer, HEADER, rows)
