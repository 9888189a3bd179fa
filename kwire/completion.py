"""Shell completion of the commands ``kwire`` and ``mockbroker``: values of arguments, and its installation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:  # imported on demand: every start of a command imports this module
    from pathlib import Path

    from click.shell_completion import CompletionItem

    Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

SHELLS, AUTO = ("bash", "zsh", "fish"), "auto"
ZSH_LINES = "fpath=(~/.zfunc $fpath)\nautoload -Uz compinit && compinit\n"


def complete(values: Callable[[], Iterable[str]], separator: str = "") -> Completer:
    """Return a ``shell_complete`` function of click that proposes the values that begin with the typed text.

    Case does not matter.

    Args:
        values: function that returns all values; it is called when a shell asks.
        separator: text that is appended to a proposal, such as "=".
    """

    def proposals(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        begin = incomplete.lower()
        return [CompletionItem(value + separator) for value in values() if value.lower().startswith(begin)]

    return proposals


def api_names() -> list[str]:
    """Return the names of all APIs."""
    from kwire.messages import NAMES  # on demand: only the completion needs it

    return [*NAMES.values()]


def error_names() -> list[str]:
    """Return the names of all error codes of Kafka."""
    from kwire.errorcodes import ErrorCode

    return [code.name for code in ErrorCode]


def _install(context: click.Context, _: click.Parameter, shell: str | None) -> None:
    if shell is None or context.resilient_parsing:
        return
    from pathlib import Path

    name = context.find_root().info_name or ""
    if shell == AUTO:
        shell = Path(os.environ.get("SHELL", "")).name
        if shell not in SHELLS:
            raise click.UsageError(
                f"--install-completion: the shell {shell!r} in the variable SHELL is not one of {', '.join(SHELLS)}: "
                "add the shell after the option"
            )
    try:
        note = install(name, shell, Path.home())
    except OSError as error:
        raise click.ClickException(f"--install-completion: cannot write {error.filename}: {error.strerror}") from error
    click.echo(note)
    context.exit()


install_completion_option = click.option(
    "--install-completion",
    type=click.Choice([*SHELLS, AUTO]),
    is_flag=False,
    flag_value=AUTO,
    is_eager=True,
    expose_value=False,
    callback=_install,
    help="Install completion for SHELL; without SHELL, for the shell in $SHELL.",
)


def install(name: str, shell: str, home: Path) -> str:
    """Write the completion script of a command to where the shell finds it; return the instructions for the user.

    Args:
        name: name of the command.
        shell: one of SHELLS.
        home: home directory of the user. XDG_DATA_HOME and XDG_CONFIG_HOME take precedence, as in the shells.

    Raises: OSError if a file cannot be written.
    """
    from pathlib import Path

    from click.shell_completion import get_completion_class

    kind: Any = get_completion_class(shell)
    script: str = kind(None, {}, name, f"_{name.replace('-', '_').upper()}_COMPLETE").source()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    path = {
        "bash": data / "bash-completion" / "completions" / name,
        "zsh": home / ".zfunc" / f"_{name}",
        "fish": config / "fish" / "completions" / f"{name}.fish",
    }[shell]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script, "utf-8")
    note = f"wrote {path}; it takes effect in new shells"
    if shell == "bash":
        note += f"\nIt needs the package bash-completion. Without it, add this line to ~/.bashrc: . {path}"
    if shell == "zsh":
        settings = home / ".zshrc"
        known = settings.read_text("utf-8") if settings.exists() else ""
        if ZSH_LINES not in known:
            settings.write_text(f"{known}{'' if known.endswith(chr(10)) or not known else chr(10)}{ZSH_LINES}", "utf-8")
            note += f"\nadded to {settings}: {ZSH_LINES.strip().replace(chr(10), '; ')}"
    return note
