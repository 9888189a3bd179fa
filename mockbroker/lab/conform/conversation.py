"""Recorded conversations: requests, responses and their times. File format: fixtures/conversations/README.md."""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any

from kwire.lazy_dataclass import dataclass

OLD: Mapping[str, Mapping[str, object]] = {  # scenario -> configuration that is missing in earlier recordings
    "sasl_plain": {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "users": {"alice": "alice-secret"},
        "plaintext": ["plaintext-listener"],
    }
}
GZIP = b"\x1f\x8b"
EVENTS = frozenset(
    {
        "request",
        "response",
        "raw bytes",
        "unmatched response",
        "no answer yet",
        "no answer",
        "broker closed the connection",
        "connection still open",
        "client closes the connection",
        "wait",
        "note",
    }
)


class ConversationError(ValueError):
    """The error for an invalid conversation file. Its message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a conversation: a request, a response, a wait, or another event on a connection.

    Attributes that do not apply to a kind of step have their defaults.

    Attributes:
        n: step number, from 1.
        event: kind of the step, one of EVENTS.
        conn: label of the connection; "" if the step has none.
        to: for a response or a missing response, the step number of its request.
        api: name of the API.
        api_key: API key.
        api_version: version of the request; for a response, the version in which it was decoded.
        correlation_id: correlation id of the request.
        fields: decoded body, with field names in snake_case.
        data: bytes of the frame, or the raw bytes that the step sends.
        after_ms: time from the request to the response, milliseconds.
        held: whether the broker delayed the response intentionally, as in a rebalance.
        released_by: for a held response, the number of the step that released it; None if a timer released it.
        ms: duration of a wait, or of the time without a response, milliseconds.
    """

    n: int
    event: str
    conn: str = ""
    to: int = 0
    api: str = ""
    api_key: int = -1
    api_version: int = 0
    correlation_id: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    data: bytes = b""
    after_ms: float = 0.0
    held: bool = False
    released_by: int | None = None
    ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A recorded conversation.

    Attributes:
        scenario: name of the scenario.
        release: name and version of the recorded broker, such as ``Apache Kafka 3.9.1``.
        doc: description of the scenario.
        config: setting name -> value of the recorded broker.
        topics: topic name -> number of partitions at the start.
        names: recorded id -> label in the file, such as ``$topic:orders``.
        steps: steps, in order.
        users: SASL user -> password.
        sasl: labels of the connections to the SASL listener; all other connections use PLAINTEXT.
        brokers: number of brokers.
        down: ids of the brokers that were shut down before the conversation.
    """

    scenario: str
    release: str
    doc: str
    config: Mapping[str, object]
    topics: Mapping[str, int]
    names: Mapping[str, str]
    steps: Sequence[Step]
    users: Mapping[str, str] = field(default_factory=dict)
    sasl: frozenset[str] = frozenset()
    brokers: int = 1
    down: Sequence[int] = ()

    @property
    def version(self) -> str:
        """The version number of the recorded broker, such as ``3.9.1``."""
        return self.release.rpartition(" ")[2]

    @property
    def name(self) -> str:
        return f"{self.scenario} ({self.release})"


def load(path: Path) -> Conversation:
    """Return the conversation in a JSON file.

    Args:
        path: path of the file, which may be compressed with gzip.

    Raises: ConversationError if the content is invalid, OSError if the file cannot be read.
    """
    data = path.read_bytes()
    try:
        content = json.loads(gzip.decompress(data) if data.startswith(GZIP) else data)
    except (ValueError, EOFError, RecursionError, zlib.error) as error:
        raise ConversationError(f"the file is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise ConversationError("the file must contain a JSON object")
    try:
        config = {**OLD.get(content.get("scenario", ""), {}), **content["broker_config"]}
        topics = config.pop("topics", {})
        steps = _steps(content["steps"])
        users, plaintext = config.pop("users", {}), config.pop("plaintext", ())
        brokers, down = config.pop("brokers", 1), config.pop("down", ())
        return Conversation(
            scenario=content["scenario"],
            release=content["broker"],
            doc=content.get("doc", ""),
            config=config,
            topics=topics,
            names=content.get("names", {}),
            steps=steps,
            users=users,
            sasl=frozenset({step.conn for step in steps} - set(plaintext)) if users else frozenset(),
            brokers=brokers,
            down=down,
        )
    except ConversationError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConversationError(f"a field of the conversation is missing or invalid: {error}") from error


@lru_cache(maxsize=4096)
def snake(name: str) -> str:
    """Return a field name of Kafka in snake_case: ``groupId`` becomes ``group_id``."""
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z])([A-Z][a-z])", r"\1_\2", name).lower()


def _snaked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {snake(key): _snaked(item) for key, item in value.items()}
    return [_snaked(item) for item in value] if isinstance(value, list) else value


def _steps(recorded: Sequence[Mapping[str, Any]]) -> list[Step]:
    """Return the steps of a conversation.

    ``recorded``: the steps in the file.

    Raises: ConversationError if a step refers to a step that is not before it.
    """
    steps: list[Step] = []
    earlier: dict[int, str] = {}  # step number -> event
    for step in map(_step, recorded):
        if step.event == "response" and earlier.get(step.to) != "request":
            raise ConversationError(f"step {step.n}: no request has step number {step.to}")
        if step.event in ("no answer yet", "no answer") and step.to not in earlier:
            raise ConversationError(f"step {step.n}: no earlier step has number {step.to}")
        steps.append(step)
        earlier[step.n] = step.event
    return steps


def _step(step: Mapping[str, Any]) -> Step:
    event = step["event"]
    if event not in EVENTS:
        raise ConversationError(f"step {step['n']}: unknown event {event!r} (known: {', '.join(sorted(EVENTS))})")
    fields = _snaked(step.get("fields") or {})
    for records in step.get("records") or ():
        _set_field(fields, records["path"], base64.b64encode(bytes.fromhex(records["hex"])).decode())
    return Step(
        n=step["n"],
        event=event,
        conn=step.get("conn", ""),
        to=step.get("to", 0),
        api=step.get("api", ""),
        api_key=step.get("api_key", -1),
        api_version=step.get("api_version", step.get("decoded_as_version", 0)),
        correlation_id=step.get("correlation_id", 0),
        fields=fields,
        data=bytes.fromhex(step.get("hex", "")),
        after_ms=step.get("after_ms", 0.0),
        held=bool(step.get("held")),
        released_by=step.get("released_by_step"),
        ms=step.get("ms") or step.get("since_ms") or step.get("waited_ms") or 0.0,
    )


def _set_field(fields: Any, path: str, value: str) -> None:
    """Set one field of a decoded message to a value.

    Args:
        fields: the decoded message.
        path: path of the field, such as ``topicData[0].records``.
        value: the new value.

    Raises: KeyError, TypeError for a path that does not exist.
    """
    parts = [int(part) if part.isdecimal() else snake(part) for part in re.findall(r"\w+", path)]
    for part in parts[:-1]:
        fields = fields[part]
    fields[parts[-1]] = value
