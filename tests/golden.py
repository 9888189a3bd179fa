"""Frames and blobs with values from other decoders, and the rules that they must satisfy."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka_definitions import snake

from kwire import decode_request, decode_response, encode_request, encode_response, unknown_tags
from kwire.codec import ENGINES
from kwire.engines.chosen import Engine
from kwire.envelope import Request, Response
from kwire.json.objects import from_json, to_json, uuid_text
from kwire.layout import Blob, List, Maybe, Node, Record, Slot, resolve

ROOT = Path(__file__).parent.parent
MORE = ROOT / "fixtures" / "more"  # not in the repository: fixtures/README.md, "More of them"
FOLDERS = {"fixtures": [ROOT / "fixtures" / "frames"]}
BLOB_FOLDERS = {"fixtures": ROOT / "fixtures" / "blobs"}
MADE = ROOT / "fixtures" / "java" / "blobs.jsonl.gz"
if (MORE / "frames").exists():
    FOLDERS["more"] = [MORE / "frames" / "generated", MORE / "frames" / "captured"]
    BLOB_FOLDERS["more"] = MORE / "frames" / "blobs"

COUNTS: Counter[str] = Counter()  # number of compared lines by kind; shown at the end of the run

Line = Mapping[str, Any]


def read(path: Path) -> Iterator[Line]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def frames(origin: str, stem: str, direction: str) -> Iterator[Line]:
    """Yield the lines of one API and direction. ``origin`` is one of FOLDERS. Not every API was captured."""
    files = [folder / f"{stem}.jsonl.gz" for folder in FOLDERS[origin]]
    for path in filter(Path.exists, files):
        yield from (line for line in read(path) if line["direction"] == direction)


def blobs(origin: str, name: str) -> list[Line]:
    """Return the lines about one blob. ``origin`` is one of BLOB_FOLDERS."""
    path = BLOB_FOLDERS[origin] / f"{name}.jsonl.gz"
    made = [line for line in read(MADE) if line["type"] == name] if origin == "fixtures" else []
    return [*(read(path) if path.exists() else []), *made]


def decode(line: Line, engine: Engine = "compiled") -> Request | Response:
    frame = bytes.fromhex(line["hex"])
    if line["direction"] == "request":
        return decode_request(frame, engine=engine)
    return decode_response(frame, line["api_key"], line["api_version"], engine=engine)


def encode(message: Request | Response, engine: Engine = "compiled") -> bytes:
    if isinstance(message, Request):
        head = encode_request(message.body, message.version, correlation_id=0, header=message.header, engine=engine)
    else:
        head = encode_response(message.body, message.version, correlation_id=0, header=message.header, engine=engine)
    return head + message.trailing


def problems(line: Line) -> list[str]:
    """Return the errors in our decoding of one frame; an empty list if it is right."""
    message = decode(line)
    body, version = message.body, message.version
    layout = resolve(type(body), version)
    differing = [f"version {version}"] if version != line["api_version"] else []
    differing += value_problems(body, version, line["fields"])
    differing += compare("header", header_values(message), header_of(line))
    differing += compare("unknown tags", sorted(tags_of(body, layout)), given_tags(line, "unknown_tagged"))
    header_tags = sorted(("", tag, data.hex()) for tag, data in unknown_tags(message.header).items())
    differing += compare("header's unknown tags", header_tags, given_tags(line, "header_unknown_tagged"))
    given_records = {snake_path(r["path"]): r["hex"] for r in line.get("records", []) if r["hex"]}
    differing += compare("records", dict(records_of(body, layout)), given_records)
    differing += compare("trailing", message.trailing.hex(), line.get("trailing") or "")
    for engine in ENGINES:
        differing += compare(f"encoded again, {engine}", encode(message, engine).hex(), line["hex"])
        if repr(decode(line, engine)) != repr(message):  # NaN is not equal to itself
            differing.append(f"engine {engine} reads something else")
    return differing


def value_problems(value: object, version: int, fields: Line) -> list[str]:
    """Return the differences of a decoded value from Kafka's ``fields``, and from the value of its JSON form."""
    form = to_json(value, version)
    differing = differences("", form, fields, resolve(type(value), version))
    if from_json(type(value), json.loads(json.dumps(form)), version) != value:
        differing.append("not the same after from_json(to_json)")
    return differing


def differences(path: str, ours: Any, theirs: Any, node: Node) -> list[str]:
    match node:
        case Maybe(record) if ours is not None and theirs is not None:
            return differences(path, ours, theirs, record)
        case Record():
            return record_differences(path, ours, theirs, node)
        case List(element) if ours is not None and theirs is not None:
            if len(ours) != len(theirs):
                return [f"{path}: {len(ours)} elements, Kafka has {len(theirs)}"]
            pairs = enumerate(zip(ours, theirs, strict=True))
            return [text for i, (a, b) in pairs for text in differences(f"{path}[{i}]", a, b, element)]
        case Blob(records=True):
            return compare(f"{path} is null", ours is None, theirs is None)  # the bytes are compared by records_of
        case _:
            return compare(path, ours, theirs)


def record_differences(path: str, ours: Line, theirs: Line, record: Record) -> list[str]:
    kafkas = {snake(key): value for key, value in theirs.items()}
    differing = []
    for slot in (*record.slots, *record.tagged):
        here = f"{path}.{slot.name}".lstrip(".")
        if slot.name in ours and slot.name in kafkas:
            differing += differences(here, ours[slot.name], kafkas[slot.name], slot.node)
        elif slot.name in ours:
            differing.append(f"{here}: Kafka does not have it")
        elif slot.name in kafkas and (slot.tag is None or kafkas[slot.name] != default_of(slot, kafkas[slot.name])):
            differing.append(f"{here}: only Kafka has it, {kafkas[slot.name]!r}")
    names = {slot.name for slot in (*record.slots, *record.tagged)}
    return differing + [f"{path}.{name}: not in our layout" for name in kafkas if name not in names]


def default_of(slot: Slot, kafkas: Any) -> Any:
    """Return the default of a tagged field, as Kafka shows it."""
    initial = slot.field.initial()
    if isinstance(slot.node, Record):
        inner = {inside.name: inside.field.initial() for inside in slot.node.slots}
        return {key: inner[snake(key)] for key in kafkas}
    return uuid_text(initial) if hasattr(initial, "hex") and hasattr(initial, "urn") else initial


def header_values(message: Request | Response) -> list[Any]:
    if isinstance(message, Request):
        header = message.header
        return [header.request_api_key, header.request_api_version, header.correlation_id, header.client_id]
    return [message.header.correlation_id]


def header_of(line: Line) -> list[Any]:
    if line["direction"] == "request":
        client_id = line["client_id"] if line["header_version"] > 0 else None  # header v0 has no client id
        return [line["api_key"], line["api_version"], line["correlation_id"], client_id]
    return [line["correlation_id"]]


def tags_of(value: Any, node: Node, path: str = "") -> Iterator[tuple[str, int, str]]:
    """Yield the unknown tagged fields of a value: path of the struct, tag, hex."""
    for here, record_value, _ in structs_of(value, node, path):
        yield from ((here, tag, data.hex()) for tag, data in unknown_tags(record_value).items())


def records_of(value: Any, node: Node) -> Iterator[tuple[str, str]]:
    """Yield path and hex of every records field that is neither null nor empty."""
    for here, record_value, record in structs_of(value, node, ""):
        for slot in record.slots:
            if isinstance(slot.node, Blob) and slot.node.records and getattr(record_value, slot.name):
                yield f"{here}.{slot.name}".lstrip("."), getattr(record_value, slot.name).hex()


def structs_of(value: Any, node: Node, path: str) -> Iterator[tuple[str, Any, Record]]:
    """Yield every struct of a value with its path and layout, first the value itself."""
    match node:
        case _ if value is None:
            return
        case Maybe(record):
            yield from structs_of(value, record, path)
        case Record():
            yield path, value, node
            for slot in (*node.slots, *node.tagged):
                yield from structs_of(getattr(value, slot.name), slot.node, f"{path}.{slot.name}".lstrip("."))
        case List(element):
            for index, item in enumerate(value):
                yield from structs_of(item, element, f"{path}[{index}]")
        case _:
            return


def given_tags(line: Line, key: str) -> list[tuple[str, int, str]]:
    return sorted((snake_path(tag.get("path", "")), tag["tag"], tag["hex"]) for tag in line.get(key, []))


def snake_path(path: str) -> str:
    return ".".join(map(snake, path.split(".")))


def compare(what: str, ours: object, theirs: object) -> list[str]:
    return [] if ours == theirs else [f"{what}: {ours!r}, Kafka has {theirs!r}"]
