"""The command ``mockbroker ctl reset``, which resets the cluster to the state in which it was started."""

from __future__ import annotations

import click

from mockbroker.cli.ctl.session import CtlCommand, Session, pass_session


@click.command("reset", cls=CtlCommand)
@pass_session
def command(session: Session) -> None:
    """Reset the cluster to its initial topics, settings and fault rules."""
    answer = session.client.ask("POST", "/v1/reset")
    session.show(answer, f"reset after event {answer['after']}")
