"""Shell completion with names that a running broker knows."""

from __future__ import annotations

from pathlib import Path

from click.shell_completion import ShellComplete
from tools.ctl_process import running

from mockbroker.cli import main


def test_names_of_a_running_broker(tmp_path: Path) -> None:
    with running(tmp_path) as ctl:
        ctl.run("topics", "create", "returns")
        ctl.run("faults", "add", "--name", "broken", "--api", "Fetch", "--error", "CORRUPT_MESSAGE")

        def proposed(*words: str) -> list[str]:
            shell = ShellComplete(main, {}, "mockbroker", "")
            typed = ["ctl", "--url", ctl.url, *words[:-1]]
            return [item.value for item in shell.get_completions(typed, words[-1])]

        assert proposed("topics", "records", "re") == ["returns"]
        assert proposed("faults", "add", "--topic", "re") == ["returns"]
        assert proposed("faults", "remove", "b") == ["broken"]
        assert proposed("groups", "show", "b") == []
        assert proposed("presets", "run", "slow") != []


def test_no_names_without_a_broker() -> None:
    shell = ShellComplete(main, {}, "mockbroker", "")
    assert shell.get_completions(["ctl", "--url", "http://127.0.0.1:1", "topics", "records"], "") == []
