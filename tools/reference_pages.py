"""docs/reference, made from the declarations: an index, and a page for each API and each module of kwire/blobs.

    python tools/reference_pages.py docs/reference

writes the pages and deletes those that are no longer made.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any
from uuid import UUID

from kwire import blobs, headers
from kwire.messages import APIS
from kwire.schema import NO_VERSIONS, Api, Field, Schema, Versions, schema_of
from kwire.versions import Row, changes, rows
from mockbroker.broker.handlers import HANDLERS

MADE_BY = "Made by `make docs` from the declarations; not edited by hand."
INDEX = f"""# Reference

Every message of Kafka 3.9 and 4.2. `kwire layout NAME` prints all versions of a message side by side, and `kwire layout
NAME --version N` the wire format of one version. [Errors](../errors.md) lists the errors of each API. {MADE_BY}

| key | API | versions | flexible since | what it does |
|---|---|---|---|---|
"""
FIELDS = (
    "| field | type | versions | nullable | default | tag | ignorable | entity |\n|---|---|---|---|---|---|---|---|\n"
)
VERSIONS = "| version | what changed |\n|---|---|\n"
LEGEND = """\
- **field**: `[]` means the elements of an array.
- **nullable**: the versions in which the field can be null.
- **tag**: the number of a tagged field.
- **ignorable**: in a version without the field, a value other than the default is ignored if yes, and an error if not.
"""


def pages() -> dict[str, str]:
    """Return the text of every page by its file name."""
    texts = {"README.md": index()}
    texts |= {f"{_stem(_module(api))}.md": api_page(api) for api in APIS.values()}
    texts |= {f"{_stem(module)}.md": data_page(module) for module in data_modules()}
    return texts


def index() -> str:
    """Return the index: a table of the APIs, and links to the other messages."""
    lines = [
        f"| {api.key} | [{api.name}]({_stem(_module(api))}.md) | {api.versions} | {_since(api.flexible)} "
        f"| {_about(_module(api))} |\n"
        for api in APIS.values()
    ]
    others = [f"- [{_stem(module)}]({_stem(module)}.md): {_names(module)}\n" for module in data_modules()]
    between = (
        "\nHeaders, and messages inside other messages or in internal topics, which have versions of their own:\n\n"
    )
    return "".join((INDEX, *lines, between, *others))


def api_page(api: Api) -> str:
    """Return the page of an API, with its request and response."""
    module = _module(api)
    head = f"# {api.name} (key {api.key})\n\n{_sentence(_doc(module))}\n\n"
    errors = f" [Errors](../errors.md#{api.name.lower()})." if api.key in HANDLERS else ""
    facts = f"Versions {api.versions}, {_flexible(api.flexible)}.{errors} `{module.__name__}`. {MADE_BY}\n\n{LEGEND}"
    return head + facts + "".join(message_part(message) for message in (api.request, api.response))


def data_page(module: ModuleType) -> str:
    """Return the page of a module of kwire/blobs, or of the headers."""
    head = f"# {_stem(module)}\n\n{_doc(module)}\n\n`{module.__name__}`. {MADE_BY}\n\n{LEGEND}"
    return head + "".join(message_part(message) for message in data_messages(module))


def message_part(message: type) -> str:
    """Return the section of a message: its fields, and the changes in each version."""
    schema = schema_of(message)
    assert schema.versions is not None
    parts = [f"\n## {schema.name}\n\n"]
    if schema.api is None:
        assert schema.flexible is not None
        parts.append(f"Versions {schema.versions}, {_flexible(schema.flexible)}.\n\n")
    fields = [row for row in rows(message) if row.field is not None]
    parts.append(f"{FIELDS}{''.join(map(_field_line, fields))}" if fields else "It has no fields.\n")
    changed: dict[int, list[str]] = {}
    for change in changes(message):
        names = ", ".join(f"`{_shown(path, fields)}`" for path in change.fields)
        changed.setdefault(change.version, []).append(f"{change.what} {names}".rstrip())
    if changed:
        parts.append(f"\n{VERSIONS}")
        parts += [f"| {version} | {'; '.join(what)} |\n" for version, what in changed.items()]
    return "".join(parts)


def _field_line(row: Row) -> str:
    field = row.field
    assert field is not None
    nullable = [version for version, form in row.forms.items() if "nullable_" in form]
    cells = (
        f"{'&nbsp;&nbsp;' * row.depth}`{row.name}{'[]' * (field.kind == 'array')}`",
        _type(field),
        _versions(list(row.forms)),
        _versions(nullable) or "-",
        _default(field),
        "-" if row.tag is None else str(row.tag),
        "yes" if field.ignorable else "-",
        field.entity or "-",
    )
    return f"| {' | '.join(cells)} |\n"


def _type(field: Field) -> str:
    if field.kind == "array":
        assert field.of is not None
        return f"array of {_type(field.of)}"
    return field.struct.__name__ if field.struct is not None else field.kind


def _default(field: Field) -> str:
    value = field.initial()
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case UUID():
            return "zero" if not value.int else str(value)
        case str() if value:
            return f'`"{value}"`'
        case str() | bytes() | list():
            return "empty"
        case int() | float():
            return str(value)
        case _:
            return "-"


def _shown(path: str, fields: Sequence[Row]) -> str:
    """Return a path with ``[]`` after each array in it."""
    arrays = {row.path for row in fields if row.field is not None and row.field.kind == "array"}
    steps = path.split(".")
    heads = [".".join(steps[: n + 1]) for n in range(len(steps))]
    shown = [f"{step}[]" if head in arrays else step for step, head in zip(steps, heads, strict=True)]
    return ".".join([*shown[:-1], steps[-1]])


def _versions(versions: Sequence[int]) -> str:
    """Return versions as ranges: ``0-2, 5`` for ``[0, 1, 2, 5]``."""
    grouped: list[Versions] = []
    for version in versions:
        if grouped and grouped[-1].last == version - 1:
            grouped[-1] = Versions(grouped[-1].first, version)
        else:
            grouped.append(Versions(version, version))
    return ", ".join(map(str, grouped))


def _since(flexible: Versions) -> str:
    return "-" if flexible == NO_VERSIONS else str(flexible.first)


def _flexible(flexible: Versions) -> str:
    return "never flexible" if flexible == NO_VERSIONS else f"flexible since {flexible.first}"


def data_modules() -> list[ModuleType]:
    """Return the modules of messages other than requests and responses."""
    modules = [import_module(f"{blobs.__name__}.{info.name}") for info in iter_modules(blobs.__path__)]
    return [headers, *(module for module in modules if any(data_messages(module)))]


def data_messages(module: ModuleType) -> Iterator[type]:
    """Yield the messages that a module declares, in its order."""
    members: Mapping[str, Any] = vars(module)
    for value in members.values():
        schema = getattr(value, "__kafka__", None)
        if isinstance(schema, Schema) and schema.versions is not None and value.__module__ == module.__name__:
            yield value


def _module(api: Api) -> ModuleType:
    return sys.modules[api.request.__module__]


def _stem(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def _doc(module: ModuleType) -> str:
    return (inspect.getdoc(module) or "").replace("``", "`").replace("|", "\\|")


def _about(module: ModuleType) -> str:
    """Return the first line of a module's docstring, without the leading name."""
    return _doc(module).partition("\n")[0].partition(": ")[2]


def _sentence(doc: str) -> str:
    """Return a docstring without the leading name."""
    text = doc.partition(": ")[2]
    return f"{text[:1].upper()}{text[1:]}"


def _names(module: ModuleType) -> str:
    return ", ".join(message.__name__ for message in data_messages(module))


def write(folder: Path) -> None:
    """Write all pages to a folder, and delete other pages in it."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = pages()
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    for path in folder.glob("*.md"):
        if path.name not in texts:
            path.unlink()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
