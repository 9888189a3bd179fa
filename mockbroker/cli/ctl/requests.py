"""The command ``mockbroker ctl requests``: show the requests of Kafka clients."""

from __future__ import annotations

import click

from kwire.errorcodes import ErrorCode
from mockbroker.cli.ctl.session import CtlCommand, Session, pass_session

HEADER = ("ID", "TIME", "API", "VERSION", "CLIENT ID", "BROKER", "LATENCY MS", "ERROR", "FAULT")


@click.command("requests", cls=CtlCommand)
@click.option("--api", help="Only requests of this API, such as OffsetCommit.")
@click.option("--client-id", help="Only requests of this client id.")
@click.option("--group", metavar="ID", help="Only requests that name this group.")
@click.option("--topic", help="Only requests that name this topic, or its id.")
@click.option("--after", type=click.IntRange(0), metavar="ID", help="Only requests after this id.")
@click.option(
    "--last",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Maximum number of requests; the latest are shown.",
)
@pass_session
def command(
    session: Session,
    api: str | None,
    client_id: str | None,
    group: str | None,
    topic: str | None,
    after: int | None,
    last: int,
) -> None:
    """Show the latest requests of clients. With --json, the output contains the decoded requests and responses, without
    secrets.
    """
    filters = {"api": api, "client_id": client_id, "group": group, "topic": topic, "after": after}
    answer = session.client.latest("/v1/requests", last, **filters)
    rows = [
        (
            each["id"],
            each["time"],
            each["api"],
            each["version"],
            each["client_id"],
            each["broker"],
            each["latency_ms"],
            _error(each["error_code"]),
            each["fault"],
        )
        for each in answer["items"]
    ]
    session.show_table(answer, HEADER, rows)


def _error(code: int | None) -> str | None:
    """Return Kafka's name of an error code; None if the response had no error code or the code 0."""
    if not code:
        return None
    return ErrorCode(code).name if code in set(ErrorCode) else str(code)
