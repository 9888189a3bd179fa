"""The settings that brokers of Kafka 3.9 and 4.2 have, as their own ConfigDef gives them; read when first asked for.

Source: org.apache.kafka.server.config.AbstractKafkaConfig (4.2), kafka.server.KafkaConfig (3.9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources

TYPES = {"BOOLEAN": 1, "STRING": 2, "INT": 3, "SHORT": 4, "LONG": 5, "DOUBLE": 6, "LIST": 7, "CLASS": 8, "PASSWORD": 9}
BITS = {"SHORT": 16, "INT": 32, "LONG": 64}
OLD, NEW = "3.9", "4.2"
BY_LISTENER = "listener.name."  # settings of one listener begin so, with its name and a dot behind
LIKENESS = 0.75  # what is less like a name than this is not suggested
RELATED = ("log.", "group.", "")  # what users leave out who think of a topic's configuration


@dataclass(frozen=True, slots=True)
class KafkaSetting:
    """One setting in one release.

    ``least``, ``most``: of numbers, as text, "" for no limit; ``words``: what it may be, none for anything;
    ``dynamic``: it can be changed in a running broker; ``internal``: not reported by DescribeConfigs.
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
        """Whether its value is reported to no client."""
        return self.type == "PASSWORD"

    def problem(self, text: str) -> str | None:
        """What is wrong with a value, None if Kafka takes it."""
        if self.type == "BOOLEAN":
            return None if text.lower() in ("true", "false") else f"expected true or false, got {text!r}"
        if self.type in BITS or self.type == "DOUBLE":
            return self._out_of_range(text)
        words = [word.strip() for word in text.split(",") if word.strip()] if self.type == "LIST" else [text]
        known = {word.lower() for word in self.words} if self.any_case else set(self.words)
        if known and any((word.lower() if self.any_case else word) not in known for word in words):
            return f"expected {', '.join(self.words)}, got {text!r}"
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


@cache
def kafka_settings() -> Mapping[str, Mapping[str, KafkaSetting]]:
    """Every setting by name, as each release has it that has it."""
    found: dict[str, dict[str, KafkaSetting]] = {}
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
            found.setdefault(name, {})[release] = setting
    return found


def definitions(name: str) -> tuple[KafkaSetting, ...]:
    """A setting as the releases have it, the newest first; of one listener as that of all. None if there is no such."""
    known = kafka_settings()
    if name.startswith(BY_LISTENER):
        parts = name.split(".")
        names = (".".join(parts[begin:]) for begin in range(3, len(parts)))
        name = next((each for each in names if each in known), name)
    found = known.get(name, {})
    return tuple(found[release] for release in (NEW, OLD) if release in found)


def nearest(name: str, known: set[str]) -> str | None:
    """What was meant by a name that is none of ``known`` and Kafka's; None if none of them is like it."""
    names = known | {
        each for each, found in kafka_settings().items() if not any(one.internal for one in found.values())
    }
    plain = name.strip().lower().replace("_", ".").removeprefix("kafka.")  # as containers have it in their environment
    for prefix in RELATED:
        if prefix + plain in names:
            return prefix + plain
    near = get_close_matches(plain, sorted(names), n=1, cutoff=LIKENESS)
    return near[0] if near else None
