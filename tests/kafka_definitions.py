"""Kafka's own message definitions, and the shape of one version of a message by them.

They are JSON with comments, inside kafka-clients.jar (``common/message``) and inside the kafka-python wheel. The result
of ``shape`` is plain tuples, made without any code of kwire, to be compared with the same tuples of a Layout.
"""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from need import CACHE, lacking, need
from oracle import kafka

ROOT = Path(__file__).parent.parent
JARS = CACHE / "jars"
COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
ARTIFACTS = {
    "3.9.1": ["clients", "group-coordinator", "transaction-coordinator"],
    "4.2.0": ["clients", "group-coordinator", "share-coordinator", "transaction-coordinator"],
}
INTEGERS = {"int8", "int16", "uint16", "int32", "uint32", "int64"}

Definition = Mapping[str, Any]


@dataclass(frozen=True)
class Shape:
    """One field in one version. ``inside``: the shapes of a struct, or of an array's struct."""

    name: str
    kind: str
    compact: bool
    null: bool
    tag: int | None
    default: object
    ignorable: bool
    inside: tuple[Shape, ...] = ()
    flexible: bool = False
    absent: frozenset[str] = frozenset()  # fields of the struct that this version lacks and that cannot be ignored
    known: frozenset[str] = frozenset()  # all fields of the struct, in whatever version


def snake(name: str) -> str:
    """Return Kafka's name in snake_case: ``isKRaftController`` -> ``is_k_raft_controller``."""
    return BOUNDARY.sub("_", name).lower()


def in_range(version: int, text: str) -> bool:
    """Return whether ``version`` is in a range such as ``0-9``, ``6+``, ``5`` or ``none``."""
    if text == "none":
        return False
    if text.endswith("+"):
        return version >= int(text[:-1])
    first, _, last = text.partition("-")
    return int(first) <= version <= int(last or first)


@cache
def of_jar(release: str) -> Mapping[str, Definition]:
    """Return the definitions of a Kafka release by message name; Maven fetches the jars once."""
    of_streams = fetched(f"org.apache.kafka:kafka-streams:{release}")  # a jar that a broker does not need
    texts = []
    for jar in [*(broker_jar(release, f"kafka-{artifact}") for artifact in ARTIFACTS[release]), of_streams]:
        with zipfile.ZipFile(jar) as archive:
            names = [name for name in archive.namelist() if re.fullmatch(r"common/message/\w+\.json", name)]
            texts += [archive.read(name).decode() for name in names]
    return by_name(texts)


def broker_jars(release: str) -> Path:
    """Return the folder with the jars of Apache Kafka; Maven fetches them once. Without Maven the test is skipped."""
    jars = kafka.FOLDER / f"jars-{release}"
    if not jars.exists():
        need("mvn", f"it fetches the jars of Apache Kafka {release}")
        try:
            kafka.fetch(release)
        except (OSError, subprocess.CalledProcessError) as error:
            lacking(f"the jars of Apache Kafka {release} could not be fetched: {error}")
    return jars


def broker_jar(release: str, name: str) -> Path:
    """Return one of the jars. Its name has no version, such as ``kafka-clients``."""
    jars = broker_jars(release)
    return next(jar for jar in jars.glob(f"{name}-*.jar") if re.fullmatch(r"[\d.]+", jar.stem[len(name) + 1 :]))


def fetched(artifact: str) -> Path:
    """Return the jar of ``group:name:version``; Maven copies it to .cache/jars once."""
    _, name, version = artifact.split(":")
    jar = JARS / f"{name}-{version}.jar"
    if jar.exists():
        return jar
    mvn = need("mvn", f"it fetches {name}, to compare what is in it with ours")
    command = [mvn, "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={JARS}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    if done.returncode:
        lacking(f"mvn could not fetch {artifact}: {(done.stdout + done.stderr)[-300:]}")
    return jar


@cache
def of_kafka_python() -> Mapping[str, Definition]:
    """Return the definitions inside the kafka-python wheel, which is not imported."""
    package = find_spec("kafka")
    if package is None or package.origin is None:
        lacking("kafka-python is not installed: its definitions are compared with ours")
    resources = Path(package.origin).parent / "protocol" / "schemas" / "resources"
    return by_name([file.read_text() for file in resources.glob("*.json")])


def by_name(texts: list[str]) -> Mapping[str, Definition]:
    definitions = [json.loads(COMMENT.sub(lambda match: match[1] or "", text)) for text in texts]
    return {definition["name"]: definition for definition in definitions}


def versions_of(definition: Definition) -> range:
    """Return the versions that the definition contains; none if the message was removed."""
    text = definition["validVersions"]
    if text == "none":
        return range(0)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def shape(definition: Definition, version: int) -> Shape:
    """Return the message in one version, as one struct."""
    reader = Reader(definition, version)
    inside, absent, known = reader.struct(definition["fields"])
    flexible = reader.flexible
    return Shape(definition["name"], "struct", False, False, None, None, False, inside, flexible, absent, known)


class Reader:
    """A reader of the fields of a definition for one version."""

    def __init__(self, definition: Definition, version: int) -> None:
        self.version = version
        self.flexible = in_range(version, definition.get("flexibleVersions", "none"))
        self.structs = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}

    def struct(self, fields: list[Definition]) -> tuple[tuple[Shape, ...], frozenset[str], frozenset[str]]:
        """Return ``inside`` of Shape (in wire order, tagged fields last, by tag), ``absent`` and ``known``."""
        here = [spec for spec in fields if in_range(self.version, present(spec))]
        absent = {snake(s["name"]) for s in fields if s not in here and not ignorable(s)}
        shapes = sorted(map(self.field, here), key=lambda shape: -1 if shape.tag is None else shape.tag)
        return tuple(shapes), frozenset(absent), frozenset(snake(spec["name"]) for spec in fields)

    def field(self, spec: Definition) -> Shape:
        array = spec["type"].startswith("[]")
        base = spec["type"].removeprefix("[]")
        null = in_range(self.version, spec.get("nullableVersions", "none"))
        compact = in_range(self.version, spec["flexibleVersions"]) if "flexibleVersions" in spec else self.flexible
        inside: tuple[Shape, ...] = ()
        absent = known = frozenset[str]()
        if base[0].isupper():
            inside, absent, known = self.struct(spec.get("fields") or self.structs[base])
            base = "struct"
        sized = array or base in {"string", "bytes", "records"}
        return Shape(
            snake(spec["name"]),
            f"[]{base}" if array else base,
            compact and sized,
            null,
            int(spec["tag"]) if self.flexible and in_range(self.version, spec.get("taggedVersions", "none")) else None,
            default_of(spec, array, base),
            ignorable(spec),
            inside,
            self.flexible and base == "struct",
            absent,
            known,
        )


def present(spec: Definition) -> str:
    """Return the versions of the field; for a tagged field without them, the versions in which it is tagged."""
    versions: str = spec.get("versions") or spec["taggedVersions"]
    return versions


def ignorable(spec: Definition) -> bool:
    """Return whether the field is ignorable, which some definitions write as a string."""
    return spec.get("ignorable", False) in (True, "true")


def default_of(spec: Definition, array: bool, base: str) -> object:
    """Return the default in its JSON form; that of a struct is None or the word struct.

    The default of records is null in Kafka's classes, even where they refuse to write it; there ours is empty.
    """
    text = str(spec.get("default", ""))
    if text == "null" or (base == "records" and spec.get("nullableVersions") == present(spec)):
        return None
    if array:
        return ()
    if base in INTEGERS:
        return int(text or "0", 0)
    plain = {"bool": text.lower() == "true", "float64": float(text or 0) if base == "float64" else 0}
    return plain.get(base, "struct" if base == "struct" else text)
