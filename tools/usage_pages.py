"""The pages of docs/ about commands, settings and the Python API, and the pictures of the layers, made from the code.

    python tools/usage_pages.py docs

writes command-line.md, settings.md, python-api.md, layers-kwire.svg and layers-mockbroker.svg into the folder.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import click
from layers_picture import picture

import kwire
import kwire.cli
import mockbroker
import mockbroker.cli
import mockbroker.consumer
from mockbroker.base.documentation import attributes
from mockbroker.base.kafka_settings import definitions
from mockbroker.base.settings import SECRETS, Settings

MADE = "Made by `make docs` from the code; not edited by hand."
PACKAGES = ("kwire", "mockbroker")
NAMES = ("command-line.md", "settings.md", "python-api.md", *(f"layers-{package}.svg" for package in PACKAGES))
WIDTH = 100  # columns of help texts


def pages() -> Mapping[str, str]:
    """Return the text of each page by its file name."""
    texts = ["\n".join(make()) + "\n" for make in (_command_line, _settings, _python_api)]
    return dict(zip(NAMES, [*texts, *map(picture, PACKAGES)], strict=True))


# --- the command line ---


def _command_line() -> Iterator[str]:
    yield f"# The command line\n\nThe help of every command. {MADE}"
    for name, group in (("mockbroker", mockbroker.cli.main), ("kwire", kwire.cli.main)):
        yield f"\n## {name}\n"
        settings = {**group.context_settings, "max_content_width": WIDTH, "terminal_width": WIDTH}
        context = click.Context(group, info_name=name, **settings)
        yield f"```\n{group.get_help(context)}\n```"
        yield from _subcommands(group, context, settings)


def _subcommands(group: click.Group, context: click.Context, settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the help of the commands of a group, and of their own commands."""
    for verb in group.list_commands(context):
        command = group.get_command(context, verb)
        assert command is not None
        command._help_option = None  # click keeps the one of an earlier call, which may have had other names
        inner = click.Context(command, context, verb, **settings)
        yield f"\n### {inner.command_path}\n\n```\n{command.get_help(inner)}\n```"
        if isinstance(command, click.Group):
            yield from _subcommands(command, inner, settings)


# --- settings ---


def _settings() -> Iterator[str]:
    meanings = attributes(Settings)
    yield f"""# Settings

Settings of a broker that have an effect, by Kafka's names: `serve --set KEY=VALUE`, `serve --config FILE`, and
`config={{...}}` in Python. Every other setting of Kafka 3.9 and 4.2 is accepted with its type and range, and has no
effect; a name that Kafka does not have is an error. Settings of topics are in [limits.md](limits.md), under "Logs".
{MADE}

| setting | default | meaning |
|---|---|---|"""
    fields = [each for each in dataclasses.fields(Settings) if each.name not in ("given", "others")]
    for each in sorted(fields, key=lambda field: field.name.replace("_", ".")):
        name = each.name.replace("_", ".")
        default = "" if name in SECRETS else _shown(each.default)
        own = ""
        if not definitions(name):
            own = " Not a setting of Kafka." if name.startswith("mockbroker.") else " A setting of Kafka's authorizer."
        meaning = meanings[each.name].replace("``", "`") + ("" if "Kafka" in meanings[each.name] else own)
        yield f"| `{name}` | {default} | {meaning} |"


def _shown(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`" if text else "empty"


# --- Python ---


def _python_api() -> Iterator[str]:
    yield f"# The Python API\n\nThe public names of `mockbroker`, `mockbroker.consumer` and `kwire`. {MADE}"
    for module in (mockbroker, mockbroker.consumer, kwire):
        yield f"\n## {module.__name__}\n\n{_paragraphs(inspect.getdoc(module) or '')}"
        for name in sorted(module.__all__):
            yield from _public(module, name)


def _public(module: ModuleType, name: str) -> Iterator[str]:
    value = getattr(module, name)
    if not inspect.isclass(value) and not inspect.isroutine(value):
        return
    yield f"\n### {name}\n"
    yield f"```python\n{_signature(name, value)}\n```\n"
    yield _paragraphs(inspect.getdoc(value) or "")
    if inspect.isclass(value) and not issubclass(value, BaseException):
        for method, function in _methods(value):
            yield f"\n#### {name}.{method}\n"
            if callable(function):
                yield f"```python\n{_signature(method, function)}\n```\n"
            yield _paragraphs(inspect.getdoc(function) or "")


def _methods(described: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties that have a docstring, in the order of their definition."""
    seen = set()
    for owner in described.__mro__[:-1]:
        if not owner.__module__.startswith(("kwire", "mockbroker")):
            continue
        for name, value in vars(owner).items():
            documented = getattr(described, name, None)
            if name.startswith("_") or name in seen or not inspect.getdoc(documented):
                continue
            if isinstance(value, property) or inspect.isroutine(documented):
                seen.add(name)
                yield name, value if isinstance(value, property) else documented


def _signature(name: str, value: object) -> str:
    try:
        signature = str(inspect.signature(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return name
    text = re.sub(r"\(self(, )?", "(", signature)
    text = re.sub(r"<(?:function|object) [^>]*>", "...", text)
    text = re.sub(r"(: |-> )'((?:[^'\\]|\\.)*)'", r"\1\2", text)  # annotations are strings
    if inspect.isclass(value):
        return f"class {name}{text.removesuffix(' -> None') if dataclasses.is_dataclass(value) else ''}"
    return f"{'async def' if inspect.iscoroutinefunction(value) else 'def'} {name}{text}"


def _paragraphs(text: str) -> str:
    """Return a docstring as Markdown: sections with a line for each name become lists."""
    lines = []
    prose = False  # in a section without a line for each name
    for line in text.replace("``", "`").splitlines():
        if section := re.fullmatch(r"(Args|Attributes|Raises|Returns|Yields):", line):
            lines += ["", f"**{section[1]}**", ""]
            prose = section[1] in ("Returns", "Yields")
        elif entry := re.match(r"    (\w+(?:, \w+)*): (.*)", line):
            lines.append(f"- `{entry[1].replace(', ', '`, `')}`: {entry[2]}")
        elif prose and line.startswith("    "):
            lines.append(line.strip())
        elif line.startswith("        "):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def main() -> None:
    folder = Path(sys.argv[1])
    for name, text in pages().items():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
