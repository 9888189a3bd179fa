"""The table of all messages of the command line and of the Python API: how to cause each, and its exact text.

The rows are in ``tests/messages``. A new message in the product code needs a row, or a line in ``NOT_CAUSED``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from golden import ROOT
from messages import cluster, consumer, kwire_commands, mockbroker_commands, records, share_consumer, wire
from messages.row import Row
from messages.templates import Template, templates

TABLES = (kwire_commands, mockbroker_commands, cluster, consumer, share_consumer, wire, records)
ROWS = [
    pytest.param(row, id=f"{table.__name__.rpartition('.')[2]}: {row.name}") for table in TABLES for row in table.ROWS
]

SCOPE = [  # files and folders whose messages a user sees
    "kwire",
    "mockbroker/__init__.py",
    "mockbroker/api",
    "mockbroker/base",
    "mockbroker/broker/failover.py",
    "mockbroker/broker/request_log.py",
    "mockbroker/cli",
    "mockbroker/client",
    "mockbroker/importing",
    "mockbroker/lab/conform",
    "mockbroker/lab/demo",
    "mockbroker/net",
    "mockbroker/pytest_plugin.py",
    "mockbroker/storage",
]
_NO_ERROR = "no error: progress or a result, on stderr beside JSON"
_RESPONSE = "in a response or a log line: tests/mockbroker/net/test_dynamic_tls.py has all"
_DEMO = "only if a client of the demo fails"
NOT_CAUSED = {  # messages that no row can cause, with the reason
    "{}: kafka_torture: no case has the name {}: mockbroker torture --list prints all cases": "only in pytest: tests/mockbroker/test_pytest_plugin.py",
    "{}: kafka_torture: invalid argument {}; expected names of cases, and seed": "only in pytest: tests/mockbroker/test_pytest_plugin.py",
    "a response without a pending request": "the broker responds only to requests",
    "Error: check failed: {}: {}": _DEMO,
    "length {} is above the limit of {}": "only for bytes of 2 GiB",
    "the Delta table {} was not written by this stream: to restart a stream from scratch, delete its folder _stream/capture_id=...": "only with the jars of Delta Lake: tests/spark/test_delta.py",
    "no record ends where the next part begins": "the pipeline reads the file again, in one part",
    "internal error while decoding {} v{}: the {} engine rejects bytes that the reference engine accepts; please report this bug of kwire": "all engines refuse the same bytes",
    "internal error while encoding {} v{}: the {} engine rejects a value that the reference engine accepts; please report this bug of kwire": "all engines refuse the same values",
    "{} overrides __getattribute__ or __setattr__": "the compiled engine decodes such a class instead",
    "Error: seed {} under {}: invariant {} is broken: {}": "only if mockbroker has a bug",
    "the client id is longer than the data": "the reader of captures catches it",
    "broker {} cannot be reached": "only between a failed connection to the leader and its next attempt",
    "the step {} did not end within {} s": _DEMO,
    "the step {} failed: {}": _DEMO,
    "the member left the group before its JoinGroup was answered": "the consumer joins again by itself",
    "topic {} was not created within {} s": "only if a broker accepts CreateTopics and then has no topic",
    "unknown command {}: use consume, produce or committed": "the demo calls the client",
    "{} failed with exit code {}": _DEMO,
    "{} of {} cases done, {} so far": _NO_ERROR,
    "requests that are not replayed, because they have no response or cannot be decoded: {}": "a note: the replay runs",
    "{} records were not delivered, the first because of: {}": _DEMO,
    "{} of {}, {}, {}: no invariant was broken": _NO_ERROR,
    "CA certificate {}, key and certificate for clients {}": _NO_ERROR,
    "control API {}": _NO_ERROR,
    "key for --key-file: {}": _NO_ERROR,
    "listener {} {}": _NO_ERROR,
    "org.apache.kafka.common.config.ConfigException: {}": _RESPONSE,
}


@pytest.fixture(scope="module", autouse=True)
def _closed_clusters() -> Iterator[None]:
    yield
    cluster.close_all()


@pytest.mark.parametrize("row", ROWS)
def test_message(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = row.printed()
    assert row.matches(printed), printed


@cache
def found() -> list[Template]:
    """Return the messages of the product code."""
    paths = [ROOT / path for path in SCOPE]
    return templates([file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])])


def has_row(template: Template) -> bool:
    return any(template.matches(row.text) for table in TABLES for row in table.ROWS)


def test_every_message_has_a_row() -> None:
    missing = [template for template in found() if template.text not in NOT_CAUSED and not has_row(template)]
    assert not missing, "\n".join(f"{each.file}:{each.line}: {each.text}" for each in missing)


def test_every_exception_is_a_message_without_a_row() -> None:
    texts = {template.text for template in found() if not has_row(template)}
    assert set(NOT_CAUSED) <= texts


def test_names_of_rows_are_unique() -> None:
    for table in TABLES:
        names = [row.name for row in table.ROWS]
        assert len(set(names)) == len(names), [name for name in names if names.count(name) > 1]
