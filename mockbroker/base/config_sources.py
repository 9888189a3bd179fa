"""The values of a broker setting from all its sources, in Kafka's order of precedence. The functions are pure.

Source: Kafka's DynamicBrokerConfig.brokerConfigSynonyms and ConfigHelper.configSynonyms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import dropwhile

from kwire.lazy_dataclass import dataclass
from mockbroker.base.kafka_settings import BY_LISTENER, NEW, OLD, KafkaSetting, base_name, kafka_settings
from mockbroker.base.live_settings import layers
from mockbroker.base.release import Release
from mockbroker.base.settings import Settings

DEFAULT = 5  # config source of DescribeConfigs: Kafka's default
IN_SEVERAL_UNITS: tuple[tuple[str, ...], ...] = (  # settings with the same meaning, the one with precedence first
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)
_SYNONYMS = {name: names for names in IN_SEVERAL_UNITS for name in names}


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """A value of a broker setting, with the source that it comes from.

    Attributes:
        name: Name of the setting in that source.
        value: The value as text.
        source: Number of the source in DescribeConfigs (1 topic, 2 broker, 3 cluster-wide default, 4 static, 5 Kafka's
            default, 8 group).
    """

    name: str
    value: str
    source: int


@cache
def release_settings(before_4_0: bool) -> Mapping[str, KafkaSetting]:
    """Return the broker settings of Kafka 4.2 or 3.9 by name, without internal settings.

    ``before_4_0``: True for the settings of Kafka 3.9.
    """
    span = OLD if before_4_0 else NEW
    found = {name: spans[span] for name, spans in kafka_settings().items() if span in spans}
    return {name: setting for name, setting in found.items() if not setting.internal}


def synonyms_of(name: str) -> tuple[str, ...]:
    """Return the setting's own name and the names of its synonyms, in order of precedence, the highest first."""
    if name.startswith(BY_LISTENER):
        return name, base_name(name)
    return _SYNONYMS.get(name, (name,))


def broker_sources(name: str, settings: Settings, release: Release) -> list[ConfigSource]:
    """Return the values of a setting from all its sources, the effective one first.

    As in Kafka, values of synonyms before the first value under the setting's own name are omitted. The list is empty
    if there is no value under the setting's own name.

    Args:
        name: Kafka's name of the setting.
        settings: The settings of a broker.
        release: The emulated Kafka release, which has the defaults.
    """
    names = synonyms_of(name)
    found = (
        ConfigSource(each, value, layer.source)
        for layer in (*layers(settings), _Defaults(release.quirks.configs_before_4_0))
        for each in names
        if (value := layer.text(each)) is not None
    )
    return list(dropwhile(lambda source: source.name != name, found))


def set_values(names: tuple[str, ...], settings: Settings) -> Iterator[ConfigSource]:
    """Yield the effective value of each named setting, in the order of ``names``. Skip settings that are not set."""
    found = layers(settings)
    for name in names:
        for layer in found:
            value = layer.text(name)
            if value is not None:
                yield ConfigSource(name, value, layer.source)
                break


@dataclass(frozen=True, slots=True)
class _Defaults:
    before_4_0: bool
    source = DEFAULT

    def text(self, name: str) -> str | None:
        setting = release_settings(self.before_4_0).get(name)
        return None if setting is None else setting.default
