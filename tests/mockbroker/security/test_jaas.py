"""JAAS settings of listeners, as in server.properties of a Kafka broker."""

from __future__ import annotations

import pytest

from mockbroker.base.settings import SettingsError
from mockbroker.security.jaas import parse_options

PREFIX = "listener.name.outside."
PLAIN = f"{PREFIX}plain.sasl.jaas.config"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{PLAIN_MODULE} required;", {}),
        (f' {PLAIN_MODULE} REQUIRED\n user_a="b"\n user_c = "d" ; ', {"user_a": "b", "user_c": "d"}),
        (f'{PLAIN_MODULE} optional user_a="; \\" = x" b=c;', {"user_a": '; " = x', "b": "c"}),
    ],
)
def test_options_of_a_login_module(text: str, options: dict[str, str]) -> None:
    assert parse_options(PLAIN, text) == options


@pytest.mark.parametrize(
    "text", ["", PLAIN_MODULE, f"{PLAIN_MODULE} required", f"{PLAIN_MODULE} always;", f'{PLAIN_MODULE} required a="b;']
)
def test_malformed_jaas_setting_is_refused(text: str) -> None:
    with pytest.raises(
        SettingsError, match=f"^{PLAIN}: expected one login module, as in: CLASS required OPTION"
    ) as error:
        parse_options(PLAIN, text)
    assert len(str(error.value)) < 200, "the value has passwords"
