"""docs/errors.md: the errors that mockbroker returns, by API, and when it returns each.

    python tools/errors_page.py docs/errors.md

The errors of an API are those in the recorded conversations with Kafka, those that its handler names, and those that
error_conditions.tsv lists for it. That file also has the condition of each error: for one API, or for all (without an
API). A row with an API and without a condition only adds the error to the API.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from conformance_table import error_codes

from kwire import APIS, ErrorCode
from kwire.messages import MODULES
from mockbroker.broker.handlers import HANDLERS
from mockbroker.lab.conform.conversation import load

ROOT = Path(__file__).parent.parent
CONDITIONS = Path(__file__).parent / "error_conditions.tsv"


def page() -> str:
    """Return the text of docs/errors.md."""
    return "\n".join(_page()) + "\n"


def recorded() -> Mapping[str, set[ErrorCode]]:
    """Return the errors in the recorded responses, by API."""
    errors: dict[str, set[ErrorCode]] = {}
    for path in sorted((ROOT / "fixtures" / "conversations").rglob("*.json.gz")):
        for step in load(path).steps:
            if step.event == "response":
                errors.setdefault(step.api, set()).update(map(ErrorCode, error_codes(step.fields)))
    return errors


def named_by_handler(api_key: int) -> set[ErrorCode]:
    """Return the errors that the source of an API's handler names."""
    tree = ast.parse((ROOT / "mockbroker" / "broker" / "handlers" / f"{MODULES[api_key]}.py").read_text("utf-8"))
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {
        ErrorCode[node.attr]
        for node in attributes
        if isinstance(node.value, ast.Name) and node.value.id == "ErrorCode" and node.attr in ErrorCode.__members__
    }


def conditions() -> Mapping[tuple[str, ErrorCode], str]:
    """Return the rows of error_conditions.tsv: condition by API and error."""
    rows = (line.split("\t") for line in CONDITIONS.read_text("utf-8").splitlines()[1:])
    return {(api, ErrorCode[error]): condition for api, error, condition in rows}


def _page() -> Iterator[str]:
    evidence, known = recorded(), conditions()
    yield """# Errors

The errors that each API returns, and when. An error is *recorded* if a recorded conversation with Kafka 4.2.0 or 3.9.1
has it ([conformance](conformance.md)); the others follow Kafka's source. *Retriable* is Kafka's classification: clients
retry such an error automatically. For groups, [coordinator.md](coordinator.md) describes the order of the checks.

A request of an unknown API or version, or one that cannot be decoded, has no error code: the connection is closed.
Made by `make docs` from the handlers and the conversations; not edited by hand."""
    for key in sorted(HANDLERS, key=lambda key: APIS[key].name):
        name = APIS[key].name
        seen = evidence.get(name, set())
        errors = seen | named_by_handler(key) | {error for api, error in known if api == name}
        yield f"\n## {name}\n"
        if errors <= {ErrorCode.NONE}:
            yield "No errors."
            continue
        yield "| error | code | retriable | recorded | returned when |"
        yield "|---|--:|---|---|---|"
        for error in sorted(errors - {ErrorCode.NONE}, key=lambda error: error.name):
            marks = ["yes" if mark else "" for mark in (error.retriable, error in seen)]
            condition = known.get((name, error)) or known["", error]
            yield f"| {error.name} | {error.value} | {' | '.join(marks)} | {condition} |"


def main() -> None:
    Path(sys.argv[1]).write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
