"""A row of the table of messages: how to cause an error, and its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner

from kwire.cli import main as kwire_command
from mockbroker.cli import main as mockbroker_command

COMMANDS = {"kwire": kwire_command, "mockbroker": mockbroker_command}
USAGE = re.compile(r"\AUsage: .*?\n\n", re.DOTALL)  # what click prints before the error
PLACEHOLDER = re.compile(r"\\\$[A-Z]+")  # $PORT in an escaped text


@dataclass(frozen=True)
class Run:
    """A run of a command in an empty folder.

    Attributes:
        arguments: the command and its arguments.
        stdin: its input.
        files: files in the folder: name to content; None for a folder.
        environment: variables of the environment.
    """

    arguments: tuple[str, ...]
    stdin: str | bytes = ""
    files: Mapping[str, str | bytes | None] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def stderr(self) -> str:
        """Run the command in the current folder; return stderr without the usage line."""
        for name, content in self.files.items():
            path = Path(name)
            if content is None:
                path.mkdir()
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)
        program, *arguments = self.arguments
        result = CliRunner().invoke(
            COMMANDS[program],
            arguments,
            input=self.stdin,
            env=self.environment,
            catch_exceptions=False,
            prog_name=program,
        )
        assert result.exit_code, "the command succeeded"
        return USAGE.sub("", result.stderr).rstrip("\n")


@dataclass(frozen=True)
class Row:
    """A message.

    Attributes:
        name: a noun phrase, the id of the test.
        cause: a run of a command, or a function that raises or returns the text.
        text: what the command prints to stderr, or the last line of the traceback: the name of the exception, a colon
            and its text. Words such as $PORT replace values that differ from run to run.
    """

    name: str
    cause: Run | Callable[[], object]
    text: str

    def printed(self) -> str:
        """Cause the error; return its text."""
        if isinstance(self.cause, Run):
            return self.cause.stderr()
        try:
            printed = self.cause()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        assert isinstance(printed, str), "the function did not raise"
        return printed

    def matches(self, printed: str) -> bool:
        return re.fullmatch(PLACEHOLDER.sub(".+", re.escape(self.text)), printed, re.DOTALL) is not None


def run(
    line: str,
    *more: str,
    stdin: str | bytes = "",
    files: Mapping[str, str | bytes | None] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Run:
    """Return a run of a command.

    Args:
        line: the command and its arguments, separated by spaces.
        more: further arguments, which may contain spaces.
    """
    return Run((*line.split(), *more), stdin, files or {}, environment or {})
