"""A command that suppresses log lines restores the log level when it ends: other brokers may run in its process."""

from __future__ import annotations

import logging

import pytest
from click.testing import CliRunner

from mockbroker.cli import main
from mockbroker.cli.quiet import SILENT, quiet

log = logging.getLogger("mockbroker")


def test_log_is_held_back_below_the_level(caplog: pytest.LogCaptureFixture) -> None:
    with quiet(SILENT):
        log.critical("held back")
    with quiet(logging.ERROR):
        log.warning("held back too")
        log.error("logged")
    log.warning("logged again")
    assert [record.getMessage() for record in caplog.records] == ["logged", "logged again"]


def test_simulate_leaves_the_log_as_it_was() -> None:
    before = log.level
    assert CliRunner().invoke(main, ["simulate", "--seeds", "1", "--events", "20"]).exit_code == 0
    assert log.level == before
