"""The man pages of ``kwire`` and ``mockbroker``, made from the help of the commands.

    python tools/man_pages.py dist/man

writes a page of section 1 for each command into the folder, such as mockbroker-serve.1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

import kwire
import kwire.cli
import mockbroker.cli


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page."""
    for name, group in (("kwire", kwire.cli.main), ("mockbroker", mockbroker.cli.main)):
        yield from _pages(group, click.Context(group, info_name=name, **group.context_settings), name)


def _pages(command: click.Command, context: click.Context, parent: str) -> Iterator[tuple[str, str]]:
    inner = []
    if isinstance(command, click.Group):
        for verb in command.list_commands(context):
            child = command.get_command(context, verb)
            assert child is not None
            inner.append((child, click.Context(child, context, verb, **dict(child.context_settings))))
    title = context.command_path.replace(" ", "-")
    yield f"{title}.1", "\n".join(_lines(command, context, inner, title, parent)) + "\n"
    for child, below in inner:
        yield from _pages(child, below, title)


def _lines(
    command: click.Command,
    context: click.Context,
    inner: list[tuple[click.Command, click.Context]],
    title: str,
    parent: str,
) -> Iterator[str]:
    """Yield the lines of a page.

    Args:
        command: command of the page.
        context: its context.
        inner: its subcommands with their contexts.
        title: name of the page.
        parent: name of the page above; the same as ``title`` at the top.
    """
    yield f'.TH "{title.upper()}" "1" "" "kwire {kwire.__version__}" "User Commands"'
    yield from (".SH NAME", f"{_text(title)} \\- {_text(command.get_short_help_str(200).rstrip('.'))}")
    yield from (".SH SYNOPSIS", f"\\fB{_text(context.command_path)}\\fR")
    yield _text(" ".join(command.collect_usage_pieces(context)))
    yield ".SH DESCRIPTION"
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        literal = paragraph.startswith("\b")
        rows = [_text(row.strip()) for row in paragraph.removeprefix("\b").strip("\n").splitlines()]
        yield from (".PP", *([".nf", *rows, ".fi"] if literal else rows))
    records = [each.get_help_record(context) for each in command.get_params(context)]
    if found := [record for record in records if record]:
        yield ".SH OPTIONS"
        for name, text in found:
            yield from (".TP", f"\\fB{_text(name)}\\fR", _text(" ".join(text.split())))
    if inner:
        yield ".SH COMMANDS"
        for child, below in inner:
            yield from (".TP", f"\\fB{_text(str(below.info_name))}\\fR", _text(child.get_short_help_str(200)))
    others = [parent] if parent != title else []
    others += [f"{title}-{below.info_name}" for _, below in inner]
    if others:
        yield from (".SH SEE ALSO", ", ".join(f"\\fB{_text(each)}\\fR(1)" for each in others))


def _text(text: str) -> str:
    """Return text with the characters escaped that roff would interpret."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.\'])", "\\\\&", escaped)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
