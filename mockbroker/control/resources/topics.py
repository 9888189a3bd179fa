"""The resource ``/v1/topics``: topics and their records."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import quote

from kwire import WireError
from mockbroker.api.records import Record, RejectedRecordError, read_from
from mockbroker.api.records import partition as find_partition
from mockbroker.base.errors import ConflictError
from mockbroker.base.settings import MAX_PARTITIONS, SettingsError
from mockbroker.control.control import Control
from mockbroker.control.paging import page, page_of
from mockbroker.control.problems import NotPossible, Refused
from mockbroker.control.routes import Answer, CheckedRequest, Parameter, paging
from mockbroker.control.shapes import Either, Flag, Items, MapOf, Null, Number, Object, Text, Whole, listed
from mockbroker.control.slices import without_blocking
from mockbroker.faults.sections import Problem

PARTITION = Object({"partition": Whole(), "leader": Whole(-1), "start": Whole(), "end": Whole(-1)})
TOPIC = Object(
    {"name": Text(), "id": Text(), "internal": Flag(), "partitions": Items(PARTITION), "config": MapOf(Null(Text()))},
    name="Topic",
)
TOPICS = listed(TOPIC)
NEW_TOPIC = Object(
    {"name": Text()},
    {
        "partitions": Whole(1, MAX_PARTITIONS),
        "config": MapOf(Either((Text(), Flag(), Number()), "a string, a number, true or false")),
    },
    name="NewTopic",
)
DATA = Null(Either((Text(), Object({"base64": Text()})), 'a string, null or {"base64": ...}'))
HEADERS = Items(Object({"key": Text(), "value": DATA}))
NEW_RECORD = Object(
    optional={
        "key": DATA,
        "value": DATA,
        "partition": Whole(0, MAX_PARTITIONS),
        "headers": Either((HEADERS, MapOf(DATA)), "an object, or a list of objects with key and value"),
        "timestamp_ms": Whole(),
    }
)
NEW_RECORDS = Object({"records": Items(NEW_RECORD)})
OFFSETS = Object({"offsets": Items(Whole())})
RECORD = Object(
    {
        "partition": Whole(),
        "offset": Whole(),
        "timestamp_ms": Whole(-1),
        "key": DATA,
        "value": DATA,
        "headers": HEADERS,
    },
    name="Record",
)
RECORDS = listed(RECORD)
RECORDS_PARAMETERS = (
    Parameter("partition", Whole(), "only records of this partition"),
    Parameter("offset", Whole(), "only records from this offset on"),
    Parameter("committed", Flag(), "only records that a consumer with `read_committed` gets", False),
    *paging(),
)
DELETE_PARAMETERS = (
    Parameter("partition", Whole(), "the partition; required"),
    Parameter("before", Whole(-1), "delete the records before this offset; -1 for all records; required"),
)


async def read_all(control: Control, call: CheckedRequest) -> Answer:
    """Answer GET /v1/topics: return a page of the topics."""
    topics = control.broker.cluster.topics
    return page(call, topics, lambda name: topic_json(control, name))


async def create(control: Control, call: CheckedRequest) -> Answer:
    """Answer POST /v1/topics: create a topic, and return it."""
    name = call.body["name"]
    partitions = call.body.get("partitions", control.broker.settings.num_partitions)
    try:
        control.cluster.create_topic(name, partitions, call.body.get("config"))
    except SettingsError as error:
        if isinstance(error, ConflictError):
            raise
        raise NotPossible([Problem("", str(error))]) from error
    return Answer(topic_json(control, name), {"Location": f"/v1/topics/{quote(name, safe='')}"})


async def delete(control: Control, call: CheckedRequest) -> Answer:
    """Answer DELETE /v1/topics/{topic}: delete a topic."""
    control.cluster.delete_topic(call.path["topic"])
    return Answer()


async def read_records(control: Control, call: CheckedRequest) -> Answer:
    """Answer GET /v1/topics/{topic}/records: return a page of the records."""
    query, first = call.query, call.query["offset"] or 0
    records = read_from(
        control.broker,
        call.path["topic"],
        query["partition"],
        first,
        _cursor(query["after"]),
        committed=query["committed"],
    )
    try:
        wanted = list(islice(records, query["limit"] + (1 if query["after"] is None else 2)))  # one of the next page
    except WireError as error:
        raise Refused(409, f"a client has written a batch that cannot be decoded: {error}") from error
    return page_of(call, {f"{each.partition}:{each.offset}": each for each in wanted}, _record_json)


def _cursor(text: str | None) -> tuple[int, int]:
    """Return partition and offset of the record that a cursor names; those of the first record for another text."""
    match = re.fullmatch(r"([0-9]{1,10}):([0-9]{1,19})", text or "")
    return (0, 0) if match is None else (int(match[1]), int(match[2]))


async def append(control: Control, call: CheckedRequest) -> Answer:
    """Answer POST /v1/topics/{topic}/records: append records, and return their offsets. If a record is invalid, none is
    appended.
    """
    records = await without_blocking(call.size, _records, call.body["records"])
    try:
        return Answer({"offsets": control.cluster.produce(call.path["topic"], records)})
    except RejectedRecordError as error:
        raise NotPossible([Problem(f"records[{error.number}]", error.text)]) from error


async def delete_records(control: Control, call: CheckedRequest) -> Answer:
    """Answer DELETE /v1/topics/{topic}/records: delete the records of a partition before an offset."""
    topic, partition, before = call.path["topic"], call.query["partition"], call.query["before"]
    if missing := [Problem(name, "missing") for name in ("partition", "before") if call.query[name] is None]:
        raise NotPossible(missing)
    find_partition(control.broker, topic, partition)
    try:
        control.cluster.delete_records(topic, partition, before)
    except ConflictError:
        raise
    except ValueError as error:
        raise NotPossible([Problem("before", str(error))]) from error
    return Answer()


async def run_retention(control: Control, call: CheckedRequest) -> Answer:
    """Answer POST /v1/topics/{topic}/retention: delete segments that exceed the retention limits; return the topic."""
    control.cluster.run_retention(call.path["topic"])
    return Answer(topic_json(control, call.path["topic"]))


async def compact(control: Control, call: CheckedRequest) -> Answer:
    """Answer POST /v1/topics/{topic}/compaction: compact a topic, and return it."""
    await control.cluster.compact(call.path["topic"])
    return Answer(topic_json(control, call.path["topic"]))


def topic_json(control: Control, name: str) -> dict[str, Any]:
    """Return a topic as a JSON object."""
    topic = control.broker.cluster.topics[name]
    return {
        "name": name,
        "id": str(topic.topic_id),
        "internal": topic.internal,
        "partitions": [
            {"partition": each.index, "leader": each.leader, "start": each.log.start, "end": each.log.end}
            for each in topic.partitions
        ],
        "config": dict(topic.configs),
    }


def _records(forms: Sequence[Mapping[str, Any]]) -> list[Record]:
    """Return the records that JSON objects describe. Raises: NotPossible if a value is invalid."""
    problems: list[Problem] = []
    records = [_record(form, f"records[{at}]", problems) for at, form in enumerate(forms)]
    if problems:
        raise NotPossible(problems)
    return records


def _record(form: Mapping[str, Any], path: str, problems: list[Problem]) -> Record:
    """Return the record that a JSON object describes. Invalid values are added to ``problems``.

    Args:
        form: the JSON object.
        path: path of the object in the body, for problems.
        problems: list to which problems are appended.
    """
    headers = form.get("headers", [])
    if isinstance(headers, dict):
        headers = [{"key": key, "value": value} for key, value in headers.items()]
    read = []
    for at, header in enumerate(headers):
        name = _data(header["key"], f"{path}.headers[{at}].key", problems)
        value = _data(header["value"], f"{path}.headers[{at}].value", problems)
        read.append(((name or b"").decode("utf-8", "replace"), value))
    return Record(
        value=_data(form.get("value"), f"{path}.value", problems),
        key=_data(form.get("key"), f"{path}.key", problems),
        headers=read,
        timestamp=form.get("timestamp_ms"),
        partition=form.get("partition"),
    )


def _data(value: Any, path: str, problems: list[Problem]) -> bytes | None:
    try:
        if isinstance(value, dict):
            return base64.b64decode(value["base64"], validate=True)
        return None if value is None else str(value).encode()
    except UnicodeEncodeError as error:
        problems.append(Problem(path, f"the value is not valid Unicode text: {error.reason}"))
    except ValueError as error:
        problems.append(Problem(path, f"the value is not valid base64: {error}"))
    return None


def _record_json(record: Record) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": _json(record.key),
        "value": _json(record.value),
        "headers": [{"key": key, "value": _json(value)} for key, value in record.headers],
    }


def _json(data: bytes | None) -> Any:
    """Return the key or value of a record as a JSON value: UTF-8 as text, any other bytes as base64, None as null."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data or b"").decode()}
