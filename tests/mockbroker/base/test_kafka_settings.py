"""The table of Kafka's settings, compared with the settings that real brokers return."""

from __future__ import annotations

import pytest
from broker_configs import RELEASES, recorded

from mockbroker.base.kafka_settings import TYPES, definitions, kafka_settings, nearest
from mockbroker.base.settings import Settings, SettingsError


@pytest.mark.parametrize("release", RELEASES)
def test_a_real_broker_has_these_and_no_others(release: str) -> None:
    table = {name: found[release] for name, found in kafka_settings().items() if release in found}
    answered = {config["name"]: config for config in recorded(release)}
    given = {name for name, config in answered.items() if config["config_source"] == 4}
    assert set(answered) - given <= {name for name, one in table.items() if not one.internal} <= set(answered)
    for name, one in table.items():
        if name not in answered:
            continue
        config = answered[name]
        assert (TYPES[one.type], one.is_secret) == (config["config_type"], config["is_sensitive"]), name
        assert one.dynamic is not config["read_only"], name
        defaults = [value for _, value, source in config["synonyms"] if source == 5]
        assert defaults in ([one.default], []), name


@pytest.mark.parametrize("release", RELEASES)
def test_settings_of_a_real_broker_are_accepted(release: str) -> None:
    for config in recorded(release):
        if config["value"] is not None and config["name"] != "sasl.enabled.mechanisms":  # GSSAPI is not supported
            Settings.parse({config["name"]: config["value"]})


@pytest.mark.parametrize("name", sorted(kafka_settings()))
def test_every_default_is_accepted(name: str) -> None:
    defaults = {found.default for found in kafka_settings()[name].values()} - {None}
    for default in defaults - {"GSSAPI"}:
        Settings.parse({name: default})


RANGES = [  # name, a value at the limit that one of the releases accepts, a value beyond the limit
    ("log.roll.hours", "1", "0"),
    ("log.segment.bytes", "14", "13"),  # the minimum is 14 in 3.9, and 1048576 in 4.2
    ("share.coordinator.threads", "1", "0"),
    ("offsets.commit.required.acks", "-32768", "-32769"),
    ("log.cleaner.min.cleanable.ratio", "1", "1.01"),
    ("log.retention.ms", str(2**63 - 1), str(2**63)),
    ("log.retention.hours", str(-(2**31)), str(-(2**31) - 1)),
    ("compression.type", "zstd", "ZSTD"),
    ("sasl.oauthbearer.assertion.algorithm", "es256", "ES512"),
    ("process.roles", "controller,broker", "broker,observer"),
    ("log.preallocate", "TRUE", "yes"),
    ("log.segment.delete.delay.ms", "0", "soon"),
]


@pytest.mark.parametrize(("name", "taken", "refused"), RANGES, ids=[name for name, _, _ in RANGES])
def test_type_and_range(name: str, taken: str, refused: str) -> None:
    assert Settings.parse({name: taken}).others == {name: taken}
    with pytest.raises(SettingsError, match=f"^{name}: "):
        Settings.parse({name: refused})


BY_LISTENER = ["listener.name.inside.ssl.keystore.password", "listener.name.my.one.plain.sasl.jaas.config"]


@pytest.mark.parametrize("name", BY_LISTENER)
def test_a_setting_of_one_listener(name: str) -> None:
    assert all(found.is_secret for found in definitions(name))
    assert definitions("listener.name.inside.nope") == ()


NEAR = [  # name, suggested name
    ("num.partition", "num.partitions"),
    ("NUM_PARTITIONS", "num.partitions"),
    ("KAFKA_LOG_RETENTION_HOURS", "log.retention.hours"),
    ("cleanup.policy", "log.cleanup.policy"),
    ("consumer.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("mockbroker.user", "mockbroker.users"),
    ("group.share.enabled", None),  # the similar setting is internal
    ("nope", None),
    ("", None),
]


@pytest.mark.parametrize(("name", "suggested"), NEAR, ids=[name for name, _ in NEAR])
def test_suggestion(name: str, suggested: str | None) -> None:
    assert nearest(name, set(Settings().by_name())) == suggested
