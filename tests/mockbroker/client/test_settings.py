from __future__ import annotations

from datetime import timedelta

import pytest

from mockbroker.client.settings import ConsumerSettings


def test_defaults_are_those_of_kafka() -> None:
    settings = ConsumerSettings()
    assert (settings.session_timeout, settings.heartbeat_interval, settings.max_poll_interval) == (45.0, 3.0, 300.0)
    assert (settings.max_poll_records, settings.auto_offset_reset, settings.enable_auto_commit) == (500, "latest", True)
    assert (settings.auto_commit_interval, settings.metadata_max_age, settings.request_timeout) == (5.0, 300.0, 30.0)
    assert (settings.fetch_min_bytes, settings.fetch_max_bytes, settings.fetch_max_wait) == (1, 52_428_800, 0.5)
    assert (settings.retry_backoff, settings.retry_backoff_max, settings.default_api_timeout) == (0.1, 1.0, 60.0)
    assert (settings.reconnect_backoff, settings.reconnect_backoff_max) == (0.05, 1.0)
    assert (settings.socket_connection_setup_timeout, settings.max_partition_fetch_bytes) == (10.0, 1_048_576)
    assert (settings.isolation_level, settings.group_protocol, list(settings.assignors)) == (
        "read_uncommitted",
        "classic",
        ["range", "cooperative-sticky"],
    )


WRONG = [
    ({"auto_offset_reset": "newest"}, "auto_offset_reset is 'newest': use earliest, latest, none or a timedelta"),
    ({"group_protocol": "modern"}, "group_protocol is 'modern': use classic or consumer"),
    ({"isolation_level": "committed"}, "isolation_level is 'committed'"),
    ({"max_poll_records": 0}, "max_poll_records is 0: use at least 1"),
    ({"max_poll_interval": 0}, "max_poll_interval is 0: use at least 0.001"),
    ({"fetch_max_wait": -1}, "fetch_max_wait is -1: use at least 0"),
    ({"metadata_max_age": float("nan")}, "metadata_max_age is nan: use at least 0"),
    ({"session_timeout": 1e9}, "session_timeout is 1000000000.0: use at most 2147483.647"),
    ({"fetch_min_bytes": 2**31}, "fetch_min_bytes is 2147483648: use at most 2147483647"),
    ({"client_id": "\ud800"}, "which UTF-8 cannot encode: use another text"),
    ({"client_rack": "r" * 32_768}, "client_rack has 32768 bytes: use at most 32767"),
    ({"group_instance_id": ""}, "group_instance_id is empty: use at least one character"),
    ({"group_remote_assignor": "range"}, "group_remote_assignor is 'range', but only the consumer protocol has it"),
    ({"assignors": []}, "assignors is empty: give at least one, such as range"),
    ({"heartbeat_interval": 45.0}, "heartbeat_interval is 45.0 s: use less than session_timeout, which is 45.0 s"),
]


@pytest.mark.parametrize(("given", "text"), WRONG, ids=[text for _, text in WRONG])
def test_invalid_settings_raise_value_error(given, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ConsumerSettings(**given)


WRONG_TYPES = [
    ({"max_poll_records": 1.5}, "max_poll_records is 1.5: use an int"),
    ({"request_timeout": "30"}, "request_timeout is '30': use a number of seconds"),
    ({"enable_auto_commit": "false"}, "enable_auto_commit is 'false': use True or False"),
    ({"client_rack": None}, "client_rack is None: use a str"),
    ({"client_id": 5}, "client_id is 5: use a str or None"),
    ({"assignors": "range"}, r"assignors is 'range': use a list, \['range'\]"),
]


@pytest.mark.parametrize(("given", "text"), WRONG_TYPES, ids=[text for _, text in WRONG_TYPES])
def test_settings_of_wrong_types_raise_type_error(given, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        ConsumerSettings(**given)


def test_valid_settings() -> None:
    assert ConsumerSettings(auto_offset_reset=timedelta(hours=1)).auto_offset_reset == timedelta(hours=1)
    assert ConsumerSettings(group_protocol="consumer", heartbeat_interval=60.0).heartbeat_interval == 60.0
    assert ConsumerSettings(group_protocol="consumer", group_remote_assignor="range").group_remote_assignor == "range"
    assert ConsumerSettings(client_id=None, default_api_timeout=float("inf")).client_id is None
