"""Levels of the broker's loggers. Kafka's behaviour is recorded in the conversation broker_loggers."""

from __future__ import annotations

from mockbroker.base.broker_loggers import ROOT, BrokerLoggers

OURS, HTTP = "mockbroker", "mockbroker.http"


def test_logger_without_a_level_has_that_of_its_parent() -> None:
    loggers = BrokerLoggers()
    assert loggers.effective() == {ROOT: "INFO", OURS: "INFO", HTTP: "INFO"}
    loggers.change({ROOT: "WARN"})
    assert loggers.effective() == {ROOT: "WARN", OURS: "WARN", HTTP: "WARN"}
    loggers.change({OURS: "DEBUG"})
    assert loggers.effective() == {ROOT: "WARN", OURS: "DEBUG", HTTP: "DEBUG"}
    loggers.change({HTTP: "ERROR", OURS: None})
    assert loggers.effective() == {ROOT: "WARN", OURS: "WARN", HTTP: "ERROR"}


def test_listener_gets_the_levels_of_each_change() -> None:
    loggers, given = BrokerLoggers(), []
    loggers.set_levels = given.append
    loggers.change({OURS: "DEBUG"})
    loggers.change({OURS: None})
    assert given == [{ROOT: "INFO", OURS: "DEBUG", HTTP: "DEBUG"}, {}]
