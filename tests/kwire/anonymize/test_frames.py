"""Captures of real clients, anonymized: nothing of the original remains, and the history is the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from captures import tls_hello
from effort import every
from golden import FOLDERS, decode
from golden import read as lines_of
from tools.captures import CAPTURES, tables_of
from tools.contents import Content, contents
from tools.pcap import Talk, packets, pcap

from kwire.analysis.report import by_group
from kwire.anonymize.bodies import Bodies
from kwire.anonymize.frames import Anonymizer
from kwire.anonymize.pseudonyms import CONSTANTS, RESERVED_IDS, Pseudonyms
from kwire.capture import Call, read
from kwire.codec import decode as decode_body
from kwire.codec import encode as encode_body
from kwire.recording import WRITERS
from kwire.redact import REDACTED

KEY = b"a key for these tests"
NAMES = Pseudonyms(KEY)
FILES = sorted(CAPTURES.iterdir())
LEAST = 8  # bytes of an original that must not be found in the output
ANONYMIZED = [(path, suffix) for path in FILES for suffix in (".jsonl", ".pcapng")]
SOME = pytest.mark.parametrize(
    ("path", "suffix"), every(3, ANONYMIZED), ids=lambda value: getattr(value, "name", value)
)


def anonymized(path: Path, folder: Path, suffix: str, **options: Any) -> tuple[Path, Anonymizer]:
    anonymizer = Anonymizer(NAMES, WRITERS[suffix](), **options)
    out = folder / f"out{suffix}"
    out.write_bytes(b"".join(anonymizer.convert(read(path, bodies=(), raw=True, redacted=False))))
    return out, anonymizer


def calls_of(path: Path) -> dict[tuple[object, ...], Call]:
    """Return the calls of a capture in order, keyed by the values that are not replaced."""
    calls = [call for call in read(path, raw=True) if isinstance(call, Call)]
    names = {}
    for call in calls:
        times = (call.request_us, call.response_us)
        names[call.api_key, call.api_version, call.correlation_id, *times] = call
    assert len(names) == len(calls)
    return names


def pairs(before: Path, after: Path) -> Iterator[tuple[Content, Content]]:
    """Each content of a capture, with what it became."""
    new = calls_of(after)
    for key, call in calls_of(before).items():
        if call.reason is None:
            other = new.pop(key)
            assert (call.client_id is None) == (other.client_id is None)
            yield Content("client_id", call.client_id), Content("client_id", other.client_id)
            for one, two in ((call.request, other.request), (call.response, other.response)):
                yield from zip_longest(contents(one), contents(two)) if one is not None else ()


def is_kept(content: Content) -> bool:
    """Return whether a content may be the same in the output."""
    value = content.value
    if isinstance(value, UUID):
        return value.int < RESERVED_IDS
    return not value or content.is_harmless or value in CONSTANTS or value == REDACTED


def is_number(content: Content) -> bool:
    """Return whether a content is a node id as text, or user data of cooperative-sticky, which is the generation."""
    if content.field.endswith("resource_name"):
        return str(content.value).isdigit()
    return content.field == "ConsumerProtocolSubscription.user_data" and len(content.raw) == 4


@SOME
def test_no_sensitive_field_keeps_its_value(path: Path, suffix: str, tmp_path: Path) -> None:
    out, anonymizer = anonymized(path, tmp_path, suffix)
    assert anonymizer.written
    count = 0
    for before, after in pairs(path, out):
        assert before.field == after.field
        if is_kept(before) or is_number(before):
            assert before.value == after.value
        else:
            count += 1
            assert before.value != after.value, before
            assert len(before.raw) == len(after.raw), before
    assert count > 20


@SOME
def test_no_original_is_found_in_the_output(path: Path, suffix: str, tmp_path: Path) -> None:
    out, _ = anonymized(path, tmp_path, suffix)
    raw = out.read_bytes()
    if suffix == ".jsonl":
        frames = [json.loads(line) for line in raw.splitlines()]
        raw += b"".join(bytes.fromhex(frame["hex"]) for frame in frames)
    results = [before for before, _ in pairs(path, out)]
    constants = b"\n".join(content.raw for content in results if is_kept(content))
    originals = {content.raw for content in results if not is_kept(content) and len(content.raw) >= LEAST}
    originals = {original for original in originals if original not in constants and original.count(0) < 5}  # numbers
    assert len(originals) > 5
    assert [original for original in originals if original in raw] == []


@SOME
def test_groups_have_the_same_history(path: Path, suffix: str, tmp_path: Path) -> None:
    out, _ = anonymized(path, tmp_path, suffix)
    assert in_order(history(out)) == in_order(renamed(history(path), names_in(path)))


@cache
def names_in(path: Path) -> dict[str, str]:
    """Each text of a capture that is replaced, with its replacement."""
    made: dict[str, str] = {}
    for key, call in calls_of(path).items():
        assert key
        parts = [Content("client_id", call.client_id), Content("host", call.broker), Content("host", call.client)]
        for message in (call.request, call.response):
            parts += contents(message) if message is not None else ()
        for part in parts:
            if isinstance(part.value, str) and not is_kept(part):
                is_host = part.field.rpartition(".")[2] in ("host", "client_host")
                replaced = NAMES.endpoint if ":" in part.value and is_host else NAMES.host if is_host else NAMES.text
                made[part.value] = replaced(part.value)
    return made


def history(path: Path) -> Any:
    groups = list(by_group.groups(tables_of(path)))
    for group in groups:
        for member in group["members"]:
            del member["name"]  # composed of other names
        for event in [*group["rebalances"], *group["restarts"]]:
            del event["trigger_evidence"]  # a sentence with names in it
        for finding in group["findings"]:
            del finding["sentence"], finding["evidence"]  # with names in them
    return json.loads(json.dumps(groups, default=str).replace(path.name, "capture"))


def in_order(value: Any) -> Any:
    """Return a history with sorted lists, because many lists are in the order of names."""
    if isinstance(value, dict):
        return {key: in_order(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted(map(in_order, value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


def renamed(value: Any, names: dict[str, str]) -> Any:
    """Return a history with other names; ``Topic-3`` and ``reason: text`` contain names."""
    if isinstance(value, dict):
        return {renamed(key, names) if len(key) >= LEAST else key: renamed(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each, names) for each in value]
    if not isinstance(value, str):
        return value
    if value in names:
        return names[value]
    topic, dash, partition = value.rpartition("-")
    if dash and partition.isdigit() and topic in names:
        return f"{names[topic]}-{partition}"
    before, colon, text = value.partition(": ")
    return f"{before}{colon}{names[text]}" if text in names else value


MESSAGES = sorted(FOLDERS["fixtures"][0].glob("*.jsonl.gz"))


@pytest.mark.parametrize("file", every(3, MESSAGES), ids=lambda path: path.name.partition(".")[0])
def test_every_message_is_replaced_and_encoded(file: Path) -> None:
    bodies = Bodies(NAMES)
    for line in lines_of(file):
        before, after = decode(line), decode(line)
        bodies.replace(after.body, after.version)
        assert decode_body(type(after.body), encode_body(after.body, after.version), after.version) == after.body
        for one, two in zip_longest(contents(before.body), contents(after.body)):
            assert one.field == two.field
            if two.value != REDACTED and not is_kept(one) and not is_number(one):
                assert one.value != two.value, one
                assert len(one.raw) == len(two.raw), one


def test_topics_can_keep_their_names(tmp_path: Path) -> None:
    path = CAPTURES / "java-4.2.0__kafka-4.2.0__kip848.pcap.gz"
    out, _ = anonymized(path, tmp_path, ".jsonl", keep_topics=True)
    changed = [(one, two) for one, two in pairs(path, out) if one.value != two.value]
    topics = {
        one.value for one, _ in pairs(path, out) if one.field == "ConsumerGroupHeartbeatRequest.subscribed_topic_names"
    }
    assert topics
    assert not topics & {one.value for one, _ in changed}
    assert any(one.field == "ConsumerGroupHeartbeatRequest.group_id" for one, _ in changed)


def test_what_is_not_kafka_is_dropped_and_counted(tmp_path: Path) -> None:
    talk = Talk()
    trace = tmp_path / "tls.pcap"
    trace.write_bytes(pcap(packets([*talk.open(), *talk.say(True, tls_hello(b"secret.example.com") * 3)])))
    out, anonymizer = anonymized(trace, tmp_path, ".pcapng")
    assert anonymizer.dropped == {"connections that are not plain Kafka": 1}
    assert b"secret" not in out.read_bytes()


def test_sasl_tokens_are_redacted(tmp_path: Path) -> None:
    path = CAPTURES / "kcat-librdkafka__kafka-4.2.0__sasl.pcap"
    out, _ = anonymized(path, tmp_path, ".jsonl")
    calls = [call for call in read(out, redacted=False) if isinstance(call, Call) and call.api_key == 36]
    assert calls
    assert {call.request.auth_bytes for call in calls} == {REDACTED}
    assert not re.search(
        b"n,,n=", bytes.fromhex("".join(json.loads(line)["hex"] for line in out.read_text().splitlines()))
    )
