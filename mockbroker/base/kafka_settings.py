"""The broker settings of Kafka 3.9 and 4.2 as Kafka's ConfigDef defines them, loaded on first use.

Source: org.apache.kafka.server.config.AbstractKafkaConfig (4.2), kafka.server.KafkaConfig (3.9).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from kwire.lazy_dataclass import dataclass

TYPES = {"BOOLEAN": 1, "STRING": 2, "INT": 3, "SHORT": 4, "LONG": 5, "DOUBLE": 6, "LIST": 7, "CLASS": 8, "PASSWORD": 9}
BITS = {"SHORT": 16, "INT": 32, "LONG": 64}
OLD, NEW = "3.9", "4.2"
BY_LISTENER = "listener.name."  # prefix of the settings of one listener, followed by its name and a dot
LIKENESS = 0.75  # minimum similarity of a suggested name (difflib ratio)
RELATED = ("log.", "group.", "")  # prefixes of settings whose topic configurations have the same name without prefix


@dataclass(frozen=True, slots=True)
class KafkaSetting:
    """A broker setting in one release of Kafka.

    Attributes:
        name: Kafka's name, such as ``num.partitions``.
        type: Type in Kafka's ConfigDef, a key of TYPES.
        default: Default value as text; None for null.
        least: Minimum of a number, as text; "" for no limit.
        most: Maximum of a number, as text; "" for no limit.
        words: Allowed values; empty if every value is allowed.
        any_case: Whether an allowed value may be written in any mix of upper and lower case.
        dynamic: Whether AlterConfigs can change the setting of a running broker.
        internal: Whether DescribeConfigs omits the setting.
    """

    name: str
    type: str
    default: str | None
    least: str
    most: str
    words: tuple[str, ...]
    any_case: bool
    dynamic: bool
    internal: bool

    @property
    def is_secret(self) -> bool:
        """Whether DescribeConfigs hides the value of the setting, because it is a password."""
        return self.type == "PASSWORD"

    def problem(self, text: str) -> str | None:
        """Return the reason why Kafka rejects a value of the setting, for an error message; None if Kafka accepts the
        value.

        ``text``: the value.
        """
        if self.type == "BOOLEAN":
            return None if text.lower() in ("true", "false") else f"expected true or false, got {text!r}"
        if self.type in BITS or self.type == "DOUBLE":
            return self._out_of_range(text)
        words = [word.strip() for word in text.split(",") if word.strip()] if self.type == "LIST" else [text]
        known = {word.lower() for word in self.words} if self.any_case else set(self.words)
        if known and any((word.lower() if self.any_case else word) not in known for word in words):
            return f"expected {one_of(self.words, many=self.type == 'LIST')}, got {text!r}"
        return None

    def _out_of_range(self, text: str) -> str | None:
        kind = float if self.type == "DOUBLE" else int
        try:
            number = kind(text)
        except ValueError:
            return f"expected a {'number' if kind is float else 'whole number'}, got {text!r}"
        half = 2 ** (BITS.get(self.type, 1_025) - 1)
        least = kind(self.least) if self.least else -half
        most = kind(self.most) if self.most else half - 1
        return None if least <= number <= most else f"{text} is not between {least} and {most}"


def one_of(words: Iterable[str], *, many: bool) -> str:
    """Return a phrase that lists the values of a setting, such as "one of none, required", for an error message.

    Args:
        words: The values that the setting accepts; "" is listed as "empty".
        many: True if the setting accepts a list of these values.
    """
    listed = ", ".join(word or "empty" for word in words)
    return f"one {'or more ' * many}of {listed}{' (comma-separated, each once)' * many}"


@cache
def kafka_settings() -> Mapping[str, Mapping[str, KafkaSetting]]:
    """Return the definitions of all broker settings, by the name of the setting and then by release (OLD or NEW)."""
    settings: dict[str, dict[str, KafkaSetting]] = {}
    from importlib import resources  # on demand: a cluster without given settings does not need it

    text = resources.files("mockbroker.base").joinpath("kafka_settings.tsv").read_text("utf-8")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, releases, kind, check, default, flags = line.split("\t")
        least, _, most = check.partition("..") if ".." in check else ("", "", "")
        words = tuple(check.lstrip("~").split("|")) if check and ".." not in check else ()
        setting = KafkaSetting(
            name=name,
            type=kind,
            default=None if default == "null" else default,
            least=least,
            most=most,
            words=words,
            any_case=check.startswith("~"),
            dynamic="d" in flags,
            internal="i" in flags,
        )
        for release in releases.split(","):
            settings.setdefault(name, {})[release] = setting
    return settings


def base_name(name: str) -> str:
    """Return the name of the setting for all listeners that corresponds to a setting of one listener.

    The prefix ``listener.name.NAME.`` is removed. If Kafka has no setting with the remaining name, parts at its
    beginning, such as a SASL mechanism, are removed until Kafka has one. If Kafka has none of these names, only the
    prefix is removed.
    """
    known = kafka_settings()
    parts = name.split(".")
    names = [".".join(parts[begin:]) for begin in range(3, len(parts))]
    return next((each for each in names if each in known), names[0] if names else name)


def definitions(name: str) -> tuple[KafkaSetting, ...]:
    """Return the definitions of a setting, newest release first; empty if Kafka has no setting with this name.

    A setting of one listener (``listener.name.NAME.*``) has the definition of the setting for all listeners.
    """
    known = kafka_settings()
    if name.startswith(BY_LISTENER):
        name = base_name(name)
    by_release = known.get(name, {})
    return tuple(by_release[release] for release in (NEW, OLD) if release in by_release)


def nearest(name: str, known: set[str]) -> str | None:
    """Return the name of the setting that is most similar to an unknown name; None if no name is similar.

    Args:
        name: The unknown name.
        known: Names of further settings that mockbroker accepts, in addition to Kafka's settings.
    """
    names = known | {
        each for each, releases in kafka_settings().items() if not any(one.internal for one in releases.values())
    }
    plain = name.strip().lower().replace("_", ".").removeprefix("kafka.")  # as in environment variables of containers
    for prefix in RELATED:
        if prefix + plain in names:
            return prefix + plain
    from difflib import get_close_matches

    near = get_close_matches(plain, sorted(names), n=1, cutoff=LIKENESS)
    return near[0] if near else None
