"""The differences between a live and a recorded request, as text."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any
from uuid import UUID

from kwire.json.objects import uuid_text
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, resolve
from mockbroker.replay.keys import LOOSE, SECRETS, contents, value_key
from mockbroker.replay.script import Answered
from mockbroker.replay.variables import CLIENT_MADE, IRRELEVANT

MAX_SHOWN = 60  # characters of a value in a difference, and bytes
MAX_COUNTED = 20  # differences between two requests; above it, they are equally far from each other
BEFORE = 10  # equal characters that are shown before the first different one
RECORD_PARTS = ("key", "value", "headers")
NOTHING = "none"
SameId = Callable[[str, str], bool]  # whether a recorded and a live id may be the same


def nearest(request: Any, version: int, calls: Iterable[Answered], same_id: SameId) -> tuple[str | None, int]:
    """Return the first difference from the recorded request that has the fewest differences, and the number of
    recorded requests without any difference.

    The difference is None if there is a recorded request without any difference.

    Args:
        request: the decoded live request.
        version: API version of the request.
        calls: recorded requests of the same API and version.
        same_id: function that returns whether a recorded id and a live id may be the same.
    """
    equal, fewest, first = 0, (MAX_COUNTED + 1, True), None
    for call in calls:
        found = list(islice(differences(request, call.request, version, same_id), MAX_COUNTED))
        if not found:
            equal += 1
        elif (len(found), call.is_used) < fewest:
            fewest, first = (len(found), call.is_used), found[0]
    return (None if equal else first), equal


def differences(live: Any, recorded: Any, version: int, same_id: SameId) -> Iterator[str]:
    """Yield the differences between two requests, without those that a replay ignores.

    Args:
        live: the decoded live request.
        recorded: the decoded recorded request.
        version: API version of both requests.
        same_id: function that returns whether a recorded id and a live id may be the same.
    """
    ignored = IRRELEVANT | SECRETS | LOOSE.get(live.__kafka__.api.key, frozenset())
    yield from _Comparison(ignored, same_id).structs(live, recorded, resolve(type(live), version), "")


class _Comparison:
    """The comparison of two requests.

    Args:
        ignored: names of fields that may differ.
        same_id: function that returns whether a recorded id and a live id may be the same.
    """

    def __init__(self, ignored: frozenset[str], same_id: SameId) -> None:
        self._ignored = ignored
        self._same_id = same_id

    def structs(self, live: Any, recorded: Any, record: Record, path: str) -> Iterator[str]:
        """Yield the differences between two structs of one layout.

        Args:
            live: value in the live request.
            recorded: value in the recorded request.
            record: layout of the structs.
            path: path of the structs in the requests, such as ``topics[0]``; "" for the whole requests.
        """
        for slot in (*record.slots, *record.tagged):
            if slot.name in self._ignored:
                continue
            here = f"{path}.{slot.name}" if path else slot.name
            one, two = getattr(live, slot.name), getattr(recorded, slot.name)
            if slot.name in CLIENT_MADE and one and two:
                if isinstance(slot.node, Text) and not self._same_id(two, one):
                    yield difference(here, one, two)
            else:
                yield from self._values(one, two, slot.node, here)

    def _values(self, live: Any, recorded: Any, node: Node, path: str) -> Iterator[str]:
        if live is None or recorded is None:
            if live is not recorded:
                yield difference(path, plain(live, node), plain(recorded, node))
            return
        match node:
            case Blob(records=True):
                yield from records_difference(path, contents(live), contents(recorded))
            case List(element):
                yield from self._lists(live, recorded, element, path)
            case (Record() as record) | Maybe(record):
                yield from self.structs(live, recorded, record, path)
            case _:
                if live != recorded:
                    yield difference(path, live, recorded)

    def _lists(self, live: Sequence[Any], recorded: Sequence[Any], element: Node, path: str) -> Iterator[str]:
        """Yield the differences between two arrays, whose order does not matter. Equal elements are compared first.

        Args:
            live: array in the live request.
            recorded: array in the recorded request.
            element: layout of an element.
            path: path of the arrays in the requests.
        """
        others: dict[Hashable, deque[Any]] = defaultdict(deque)
        for each in recorded:
            others[value_key(each, element, self._ignored)].append(each)
        unmatched = []
        for at, each in enumerate(live):
            if same := others[value_key(each, element, self._ignored)]:
                yield from self._values(each, same.popleft(), element, f"{path}[{at}]")  # ids may differ
            else:
                unmatched.append((at, each))
        rest = [each for same in others.values() for each in same]
        for (at, one), two in zip(unmatched, rest, strict=False):
            yield from self._values(one, two, element, f"{path}[{at}]")
        for at, one in unmatched[len(rest) :]:
            yield f"{path}[{at}] is {shown(plain(one, element))}, recorded {NOTHING}"
        for two in rest[len(unmatched) :]:
            yield f"{path}[{len(live)}] is {NOTHING}, recorded {shown(plain(two, element))}"


def records_difference(path: str, live: Hashable, recorded: Hashable, first: int = 0) -> Iterator[str]:
    """Yield the differences between the records of two requests.

    Args:
        path: path of the records in the requests.
        live: contents of the live records, as ``contents`` returns them.
        recorded: contents of the recorded records.
        first: number of the first live record of ``live`` in the request.
    """
    if not (isinstance(live, tuple) and isinstance(recorded, tuple)):
        if live != recorded:
            yield difference(path, live, recorded)
        return
    for at, (one, two) in enumerate(zip_longest(live, recorded), first):
        if one is None or two is None:
            texts = [None if each is None else dict(zip(RECORD_PARTS, each, strict=True)) for each in (one, two)]
            yield difference(f"{path}[{at}]", *texts)
            continue
        for name, part, other in zip(RECORD_PARTS, one, two, strict=True):
            if part != other:
                yield difference(f"{path}[{at}].{name}", part, other)


def difference(path: str, live: object, recorded: object) -> str:
    """Return the text for two different values of a field. Long values are shortened around the first difference.

    Args:
        path: path of the field.
        live: value in the live request.
        recorded: value in the recorded request.
    """
    begin = 0
    if isinstance(live, (str, bytes)) and type(live) is type(recorded):
        assert isinstance(recorded, (str, bytes))
        if max(len(live), len(recorded)) > MAX_SHOWN:
            different = (at for at, (one, two) in enumerate(zip(live, recorded, strict=False)) if one != two)
            begin = max(0, next(different, min(len(live), len(recorded))) - BEFORE)
    return f"{path} is {shown(live, begin)}, recorded {shown(recorded, begin)}"


def shown(value: Any, begin: int = 0) -> str:
    """Return a value as text of about MAX_SHOWN characters or bytes.

    Args:
        value: value of a field, without structs (``plain`` converts them).
        begin: number of the first character or byte that is shown, of a text or of bytes.
    """
    if isinstance(value, (str, bytes)):
        part = repr(value[begin : begin + MAX_SHOWN])
        unit = "bytes" if isinstance(value, bytes) else "characters"
        rest = f"... ({len(value)} {unit})" if len(value) > begin + MAX_SHOWN else ""
        return f"{'...' if begin else ''}{part}{rest}"
    if isinstance(value, UUID):
        return uuid_text(value)
    text = NOTHING if value is None else str(value)
    return text if len(text) <= 2 * MAX_SHOWN else f"{text[: 2 * MAX_SHOWN]}... ({len(text)} characters)"


def plain(value: Any, node: Node) -> Any:
    """Return a value with its structs as dictionaries, without secrets, for the text of a difference.

    Args:
        value: value of a field, or of an array element.
        node: layout of the value.
    """
    if value is None:
        return None
    match node:
        case Blob(records=True):
            return f"{len(value)} bytes"
        case Fixed("uuid"):
            return uuid_text(value)
        case List(element):
            return [plain(each, element) for each in value]
        case (Record() as record) | Maybe(record):
            slots = [slot for slot in (*record.slots, *record.tagged) if slot.name not in SECRETS]
            return {slot.name: plain(getattr(value, slot.name), slot.node) for slot in slots}
        case _:
            return value
