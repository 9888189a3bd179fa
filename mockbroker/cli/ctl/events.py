"""The command ``mockbroker ctl events``: show the events of the journal."""

from __future__ import annotations

from functools import partial

import click

from mockbroker.cli.ctl.session import CtlCommand, Session, pass_session
from mockbroker.cli.event_lines import event_line
from mockbroker.cli.followed_events import followed_events


@click.command("events", cls=CtlCommand)
@click.option("-f", "--follow", is_flag=True, help="Print events as they happen; reconnect if the server restarts.")
@click.option("--group", metavar="ID", help="Only events of this group.")
@click.option("--kind", help="Only events of this kind, such as rebalance.")
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="ID",
    help="Only events after this id; with -f, 0 also prints all kept events.",
)
@click.option(
    "--last",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Maximum number of events; the latest are shown.",
)
@pass_session
def command(session: Session, follow: bool, group: str | None, kind: str | None, after: int | None, last: int) -> None:
    """Show the latest events of the journal. With -f, print a line for each event as it happens, until Ctrl-C."""
    if not follow:
        answer = session.client.latest("/v1/events", last, group=group, kind=kind, after=after)
        session.show(answer, lambda: "\n".join(map(event_line, answer["items"])))
        return
    for event in followed_events(session.client, after, partial(click.echo, err=True), group=group, kind=kind):
        session.show(event, event_line(event))
