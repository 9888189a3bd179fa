"""docs/errors.md: the errors that mockbroker returns, by API, and when; and the errors that Kafka returns, as data.

    python tools/errors_page.py docs/errors.md mockbroker/faults/api_errors.tsv

The errors of an API are those in the recorded conversations with Kafka, those that its handler names, and those that
error_conditions.tsv lists for it. That file also has the condition of each error: for one API, or for all (without an
API). A row with an API and without a condition only adds the error to the API.

The data is used to warn of a fault rule whose error Kafka never returns. It has the errors of the page, those of
documented_errors.tsv, those of missing authorization, and UNKNOWN_SERVER_ERROR, which an exception in any handler of
Kafka becomes.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from conformance_table import error_codes

from kwire import APIS, ErrorCode
from kwire.body_fields import fields_of
from kwire.messages import MODULES
from mockbroker.broker.handlers import HANDLERS
from mockbroker.faults.identifiers import GROUP, TOPIC, TRANSACTIONAL_ID, terms_of
from mockbroker.lab.conform.conversation import load

ROOT = Path(__file__).parent.parent
CONDITIONS = Path(__file__).parent / "error_conditions.tsv"
DOCUMENTED = Path(__file__).parent / "documented_errors.tsv"
UNAUTHORIZED = {  # by the kind of resource that a request names
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def page() -> str:
    """Return the text of docs/errors.md."""
    return "\n".join(_page()) + "\n"


@cache
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


def documented() -> Mapping[str, set[ErrorCode]]:
    """Return the rows of documented_errors.tsv: errors by API."""
    lines = [line for line in DOCUMENTED.read_text("utf-8").splitlines() if not line.startswith("#")]
    rows = (line.split("\t") for line in lines[1:])
    return {api: {ErrorCode[error] for error in errors.split()} for api, errors in rows}


def data() -> str:
    """Return the text of mockbroker/faults/api_errors.tsv."""
    evidence, in_kafka = recorded(), documented()
    lines = ["# Errors that Kafka returns, by API; written by tools/errors_page.py"]
    for key in sorted(HANDLERS, key=lambda key: APIS[key].name):
        if any(path.rpartition(".")[2] == "error_code" for path, _ in fields_of(APIS[key].response)):
            name = APIS[key].name
            errors = _returned(key, evidence) | in_kafka.get(name, set()) | _of_any_cluster(key)
            lines.append(f"{name}\t{' '.join(sorted(error.name for error in errors - {ErrorCode.NONE}))}")
    return "\n".join(lines) + "\n"


def _of_any_cluster(api_key: int) -> set[ErrorCode]:
    """Return the errors that do not depend on the API, but on what its requests name."""
    named = {error for term, error in UNAUTHORIZED.items() if term in terms_of(api_key)}
    return {ErrorCode.UNKNOWN_SERVER_ERROR} | (named or {ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


def _returned(api_key: int, evidence: Mapping[str, set[ErrorCode]]) -> set[ErrorCode]:
    """Return the errors of an API in docs/errors.md. ``evidence``: the recorded errors, by API."""
    name = APIS[api_key].name
    return evidence.get(name, set()) | named_by_handler(api_key) | {error for api, error in conditions() if api == name}


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
        errors = _returned(key, evidence)
        yield f"\n## {name}\n"
        if errors <= {ErrorCode.NONE}:
            yield "No errors."
            continue
        yield "| error | code | retriable | recorded | returned when |"
        yield "|---|--:|---|---|---|"
        for error in sorted(errors - {ErrorCode.NONE}, key=lambda error: error.name):
            marks = ["yes" if mark else "" for mark in (error.retriable, error in seen)]
            condition = known.get((name, error)) or known.get(("", error))
            if condition is None:
                raise ValueError(
                    f"no condition of {error.name} for {name}: add a row with the API, or with an empty API, to "
                    f"tools/{CONDITIONS.name}"
                )
            yield f"| {error.name} | {error.value} | {' | '.join(marks)} | {condition} |"


def main() -> None:
    Path(sys.argv[1]).write_text(page(), "utf-8")
    Path(sys.argv[2]).write_text(data(), "utf-8")


if __name__ == "__main__":
    main()
