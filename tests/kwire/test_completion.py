"""Shell completion: the proposals, and where ``--install-completion`` writes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from kwire.cli import main as kwire
from kwire.completion import SHELLS, ZSH_LINES, install
from mockbroker.cli import main as mockbroker

COMMANDS = {"kwire": kwire, "mockbroker": mockbroker}
PROPOSED = [  # typed words, and what they are completed to
    ("kwire lay", {"layout"}),
    ("kwire layout joingr", {"JoinGroup"}),
    ("kwire layout --ver", {"--version"}),
    ("kwire fuzz --api Heartb", {"Heartbeat"}),
    ("kwire blob ConsumerProtocolS", {"ConsumerProtocolSubscription"}),
    ("mockbroker ser", {"serve"}),
    ("mockbroker ctl fau", {"faults"}),
    ("mockbroker serve --set group.initial", {"group.initial.rebalance.delay.ms="}),
    ("mockbroker ctl faults add --error REBALANCE", {"REBALANCE_IN_PROGRESS"}),
    ("mockbroker ctl faults add --api SyncG", {"SyncGroup"}),
    ("mockbroker torture --case correlation_id-Meta", {"correlation_id-Metadata"}),
    ("mockbroker ctl topics records or", set()),  # no running broker is named
]


def proposed(typed: str) -> set[str]:
    name, *words = typed.split()
    shell = ShellComplete(COMMANDS[name], {}, name, "")
    return {item.value for item in shell.get_completions(words[:-1], words[-1])}


@pytest.mark.parametrize(("typed", "values"), PROPOSED)
def test_proposed_values(typed: str, values: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOCKBROKER_URL", raising=False)
    assert proposed(typed) == values


def options(command: click.Command, path: str) -> Iterator[tuple[str, click.Option]]:
    """Yield the path and each option of a command and of its subcommands."""
    context = click.Context(command)
    yield from ((path, each) for each in command.get_params(context) if isinstance(each, click.Option))
    if isinstance(command, click.Group):
        for verb in command.list_commands(context):
            inner = command.get_command(context, verb)
            assert inner is not None
            yield from options(inner, f"{path} {verb}")


@pytest.mark.parametrize(("name", "command"), [("kwire", kwire), ("mockbroker", mockbroker)])
def test_every_option_has_a_help_text(name: str, command: click.Command) -> None:
    found = [*options(command, name)]
    assert len(found) > 50
    assert [f"{path} {option.opts[0]}" for path, option in found if not option.help and not option.hidden] == []


@pytest.mark.parametrize("shell", SHELLS)
def test_install_completion(shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    note = install("mockbroker", shell, tmp_path)
    (script,) = [path for path in tmp_path.rglob("*mockbroker*") if path.is_file()]
    assert str(script) in note
    assert "_MOCKBROKER_COMPLETE" in script.read_text("utf-8")


def test_zsh_settings_are_extended_once(tmp_path: Path) -> None:
    (tmp_path / ".zshrc").write_text("alias k=kwire", "utf-8")
    install("kwire", "zsh", tmp_path)
    install("mockbroker", "zsh", tmp_path)
    assert (tmp_path / ".zshrc").read_text("utf-8") == f"alias k=kwire\n{ZSH_LINES}"


def test_bash_completes_by_the_installed_script(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "SHELL": "/bin/bash", "XDG_DATA_HOME": str(tmp_path)}
    result = CliRunner().invoke(kwire, ["--install-completion"], env=environment, prog_name="kwire")
    assert result.exit_code == 0
    script = tmp_path / "bash-completion" / "completions" / "kwire"
    lines = f"complete() {{ :; }}; . {script}; COMP_WORDS=(kwire layout joing); COMP_CWORD=2; _kwire_completion kwire; echo ${{COMPREPLY[@]}}"
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", lines], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "JoinGroup\n"
