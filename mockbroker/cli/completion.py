"""Shell completion of the command ``mockbroker``: it proposes settings, and names that a running broker knows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwire.completion import complete
from mockbroker.cli.http_address import read_token

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kwire.completion import Completer
    from mockbroker.cli.control_client import ControlClient

PATIENCE = 1.0  # seconds that a shell waits for the broker


def _settings() -> list[str]:
    """Return the names of the settings that have an effect, as proposals for the shell completion."""
    from mockbroker.cli.settings import rows  # on demand: it reads all definitions

    return [row.name for row in rows() if row.effect]


def case_names() -> list[str]:
    """Return the names of the cases of ``mockbroker torture``."""
    from mockbroker.lab.torture.catalogue import select

    return [case.name for case in select(("*",), ())]


def running(path: str, key: str) -> Completer:
    """Return a ``shell_complete`` function that proposes names from the control API of a running broker.

    The URL of the control API is the value of ``--url``, or of an environment variable. If the server does not respond,
    the function proposes nothing.

    Args:
        path: URL path of a list in the control API, such as ``/v1/topics``.
        key: JSON key under which each item of the list has its name.
    """

    def proposals(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            client = _client(context)
            names = [str(item[key]) for item in client.ask("GET", path)["items"]]
        except click.ClickException:  # also ControlError
            return []
        from click.shell_completion import CompletionItem  # on demand: only a shell that completes needs it

        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    return proposals


def _given(context: click.Context, name: str) -> str | None:
    """Return the value of an option of this command or of a parent command as text; None if the option was not given.

    ``name``: name of the option's parameter, such as ``token_file``.
    """
    at: click.Context | None = context
    while at is not None:
        if value := at.params.get(name):
            return str(value)
        at = at.parent
    return None


def _client(context: click.Context) -> ControlClient:
    from mockbroker.cli.control_client import URL_VARIABLE, ControlClient  # on demand: serve needs no HTTP client

    file = _given(context, "token_file")
    token = read_token(Path(file) if file else None, "--token-file")
    return ControlClient(_given(context, "url") or os.environ.get(URL_VARIABLE) or "", token, PATIENCE)


topics = running("/v1/topics", "name")
groups = running("/v1/groups", "id")
faults = running("/v1/faults", "name")
presets = running("/v1/presets", "name")
setting_names = complete(_settings, "=")
