"""Settings of one listener and of all listeners. More recorded cases are in fixtures/keystores.json."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mockbroker.base.settings import Settings
from mockbroker.topics.listener_configs import listeners_error

FIXED = {"listener.name.ssl.ssl.client.auth": "required"}
ALL = {"ssl.client.auth": "none"}
STATIC = {"ssl.client.auth": "requested", "listener.name.ssl.ssl.client.auth": "none"}


@pytest.mark.parametrize(
    ("static", "before", "after", "is_refused"),
    [
        pytest.param({}, {}, FIXED | ALL, True, id="both at once"),
        pytest.param({}, FIXED, FIXED | ALL, True, id="one after the other"),
        pytest.param({}, FIXED | ALL, FIXED, True, id="deleted"),
        pytest.param({}, ALL, FIXED | ALL, False, id="of the listener only"),
        pytest.param({}, FIXED, ALL, False, id="no longer of the listener"),
        pytest.param({}, FIXED, FIXED | {"log.retention.ms": "1"}, False, id="of no listener"),
        pytest.param({}, FIXED, FIXED | {"advertised.listeners": "a://b:1"}, True, id="listeners of the broker"),
        pytest.param({}, FIXED, FIXED | {"max.connections": "5"}, True, id="connections of all listeners"),
        pytest.param({}, FIXED, FIXED | {"num.network.threads": "5"}, True, id="threads of all listeners"),
        pytest.param({}, {}, ALL | {"listener.name.ssl.max.connections": "5"}, False, id="connections"),
        pytest.param({}, {}, ALL | {"listener.name.ssl.max.connections.per.ip": "5"}, False, id="of an address"),
        pytest.param({}, {}, ALL | {"listener.name.other.ssl.client.auth": "none"}, False, id="no such listener"),
        pytest.param({}, {}, ALL | {"listener.name.ssl.ssl.keystore.location": "f"}, False, id="keystore"),
        pytest.param(STATIC, {}, ALL | {"listener.name.ssl.ssl.client.auth": "none"}, False, id="as static"),
        pytest.param(STATIC, {}, ALL | FIXED, True, id="other than static"),
        pytest.param(STATIC, FIXED, FIXED | {"ssl.client.auth": "requested"}, False, id="all as static"),
    ],
)
def test_general_setting_beside_one_of_a_listener(
    static: Mapping[str, object], before: Mapping[str, str], after: Mapping[str, str], is_refused: bool
) -> None:
    text = listeners_error(Settings.parse(static), before, after, ["PLAINTEXT", "SSL"])
    assert (text is not None) is is_refused
    assert text is None or "existing listener ListenerName(SSL)" in text
