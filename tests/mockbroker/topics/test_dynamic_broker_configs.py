"""Which settings of brokers can be changed. Kafka's behaviour: broker_configs_scopes, broker_configs_validated."""

from __future__ import annotations

import pytest

from kwire import ErrorCode as E
from mockbroker.base.kafka_settings import NEW, kafka_settings
from mockbroker.base.live_settings import ALL_BROKERS, MIN_IN_SYNC
from mockbroker.base.release import KAFKA_3_9, KAFKA_4_2
from mockbroker.topics.dynamic_broker_configs import (
    BY_LISTENER_ONLY,
    configs_error,
    definition,
    is_dynamic,
    is_of_one_broker,
    min_in_sync_error,
)


def default(name: str) -> str:
    return kafka_settings()[name][NEW].default or ""


def test_default_of_each_dynamic_setting_is_valid() -> None:
    dynamic = [name for name, spans in kafka_settings().items() if NEW in spans and spans[NEW].dynamic]
    assert len(dynamic) > 90
    for name in dynamic:
        if default(name) and name not in BY_LISTENER_ONLY:
            assert configs_error({name: default(name)}, "1", KAFKA_4_2, default) is None, name


def test_settings_of_another_release_are_unknown_and_accepted() -> None:
    assert is_dynamic("zookeeper.connect", KAFKA_4_2)
    assert not is_dynamic("zookeeper.connect", KAFKA_3_9)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("message.max.bytes", False),
        ("ssl.protocol", True),
        ("listeners", True),
        ("listener.name.a.max.connections", False),
        ("listener.name.a.message.max.bytes", True),
        ("listener.name.", False),
    ],
)
def test_setting_that_only_one_broker_can_have(name: str, expected: bool) -> None:
    assert is_of_one_broker(name) is expected


def test_more_than_four_names_are_a_hash_set() -> None:
    names = ("num.partitions", "fetch.max.bytes", "group.max.size", "broker.rack", "auto.create.topics.enable")
    error = configs_error(dict.fromkeys(names, "1"), "1", KAFKA_4_2, default) or ""
    assert error.startswith("Cannot update these configs dynamically: HashSet(num.partitions, ")


def test_min_in_sync_cannot_be_removed_or_set_on_a_broker() -> None:
    assert min_in_sync_error({"a": None}, ALL_BROKERS) is None
    assert min_in_sync_error({MIN_IN_SYNC: "2"}, ALL_BROKERS) is None
    for changed, resource in (({MIN_IN_SYNC: None}, ALL_BROKERS), ({MIN_IN_SYNC: "2"}, "1")):
        error = min_in_sync_error(changed, resource)
        assert error is not None
        assert error[0] == E.INVALID_CONFIG


def test_gzip_level_has_a_check_of_its_own() -> None:
    check = definition(kafka_settings()["compression.gzip.level"][NEW]).check
    assert check is not None
    with pytest.raises(ValueError, match="between 1 and 9"):
        check("compression.gzip.level", 0)
