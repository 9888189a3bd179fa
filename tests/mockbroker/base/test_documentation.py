"""The documentation of settings."""

from __future__ import annotations

from mockbroker.base.documentation import attributes, documentation
from mockbroker.base.settings import Settings


def test_each_setting_with_an_effect_is_documented() -> None:
    for name in Settings().by_name():
        text = documentation(name)
        assert text, name
        assert text.endswith("."), name
    assert documentation("message.max.bytes") == "Maximum size of one record batch."


def test_other_settings_have_no_documentation() -> None:
    assert [documentation(name) for name in ("broker.heartbeat.interval.ms", "no.such.setting", None)] == [None] * 3


def test_class_without_attributes_has_none() -> None:
    assert attributes(int) == {}
