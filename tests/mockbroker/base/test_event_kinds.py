"""The kinds of journal events: each is documented, and written by the broker."""

from __future__ import annotations

import pytest
from golden import ROOT

from mockbroker.base.event_kinds import EventKind, event_table

LAB = ROOT / "mockbroker" / "lab"  # this package reads events and writes none


def test_the_documentation_has_the_table_of_events() -> None:
    assert event_table() in (ROOT / "docs" / "pytest.md").read_text("utf-8")


def test_meaning_is_one_sentence() -> None:
    assert [kind for kind in EventKind if not kind.meaning.endswith(".") or ". " in kind.meaning] == []


@pytest.mark.parametrize("kind", EventKind)
def test_the_broker_writes_every_kind(kind: EventKind) -> None:
    files = [path for path in (ROOT / "mockbroker").rglob("*.py") if LAB not in path.parents]
    assert any(f"EventKind.{kind.name}" in path.read_text("utf-8") for path in files)


def test_kinds_are_equal_to_the_strings_of_the_journal() -> None:
    assert EventKind("leave") is EventKind.LEAVE
    assert f"{EventKind.LEAVE}" == EventKind.LEAVE == "leave"
