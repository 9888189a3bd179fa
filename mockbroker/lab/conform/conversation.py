"""A recorded conversation: what was sent, what came back, and when. Form: fixtures/conversations/README.md."""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OLD: Mapping[str, Mapping[str, object]] = {  # conversations that do not say all of it, and what they would say
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
    """A file that is not a conversation; says what is wrong with which step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of a conversation. Times are milliseconds, as recorded; ``fields`` are in snake_case."""

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
    """``names``: ids of the recorded run, and what they stand for; ``config`` and ``topics``: how to start a broker.

    ``users``: passwords of those who may come in by SASL; ``sasl``: connections to the listener for them, the others
    are to one in plaintext.
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

    @property
    def version(self) -> str:
        """``Apache Kafka 3.9.1`` -> ``3.9.1``."""
        return self.release.rpartition(" ")[2]

    @property
    def name(self) -> str:
        return f"{self.scenario} ({self.release})"


def load(path: Path) -> Conversation:
    """A conversation from its file, JSON or gzip'd JSON. Raises: ConversationError, OSError."""
    data = path.read_bytes()
    try:
        found = json.loads(gzip.decompress(data) if data.startswith(GZIP) else data)
    except (ValueError, EOFError, zlib.error) as error:
        raise ConversationError(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConversationError("not an object")
    try:
        config = {**OLD.get(found.get("scenario", ""), {}), **found["broker_config"]}
        topics = config.pop("topics", {})
        steps = [_step(step) for step in found["steps"]]
        users, plaintext = config.pop("users", {}), config.pop("plaintext", ())
        return Conversation(
            scenario=found["scenario"],
            release=found["broker"],
            doc=found.get("doc", ""),
            config=config,
            topics=topics,
            names=found.get("names", {}),
            steps=steps,
            users=users,
            sasl=frozenset({step.conn for step in steps} - set(plaintext)) if users else frozenset(),
        )
    except (KeyError, TypeError) as error:
        raise ConversationError(f"a field is missing or of the wrong kind: {error}") from error


def snake(name: str) -> str:
    """Kafka's field name in the form of kwire: ``groupId`` -> ``group_id``."""
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z])([A-Z][a-z])", r"\1_\2", name).lower()


def _snaked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {snake(key): _snaked(item) for key, item in value.items()}
    return [_snaked(item) for item in value] if isinstance(value, list) else value


def _step(step: Mapping[str, Any]) -> Step:
    event = step["event"]
    if event not in EVENTS:
        raise ConversationError(f"step {step['n']}: unknown event {event!r}")
    fields = _snaked(step.get("fields") or {})
    for records in step.get("records") or ():
        _put(fields, records["path"], base64.b64encode(bytes.fromhex(records["hex"])).decode())
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


def _put(fields: Any, path: str, value: str) -> None:
    """Set ``topicData[0].records`` and the like; a path that is not there is the file's fault."""
    parts = [int(part) if part.isdecimal() else snake(part) for part in re.findall(r"\w+", path)]
    for part in parts[:-1]:
        fields = fields[part]
    fields[parts[-1]] = value
