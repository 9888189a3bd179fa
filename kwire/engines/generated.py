"""What generated readers and writers share: their options, struct's codes, and the names that their source may use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import Any

from kwire import codegen
from kwire.codegen import Names
from kwire.engines import runtime
from kwire.layout import Record
from kwire.schema import Field, schema_of

CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}


# What every generated source may use beside its own definitions; compiled.ORIGINS tells readers of it.
NAMES: dict[str, Any] = {
    **{name: thing for name, thing in vars(runtime).items() if not name.startswith("_")},
    "Struct": Struct,
    "unpackers": cache(runtime.Unpackers),
    "packers": cache(runtime.Packers),
    "new": object.__new__,
    "NO_TAGS": {},
    "NO_LIMIT": 2**62,
}


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """How a reader reads. Each option costs time, so a message is read without them where that is enough.

    ``weighed``: what arrays become is counted. ``escaped``: text that is not UTF-8 is read as surrogate escapes.
    """

    weighed: bool = False
    escaped: bool = False

    @property
    def decode(self) -> str:
        """The method call that turns bytes into text."""
        return 'decode("utf-8", "surrogateescape")' if self.escaped else "decode()"


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """How a writer writes.

    ``careful``: text with surrogate escapes is written as the bytes that they stand for, and text may be longer than
    the table of short counts. Without it such text raises UnicodeEncodeError or IndexError.
    ``sliced``: the writer is a generator, which stops after so many elements of arrays as its second argument says.
    """

    careful: bool = False
    sliced: bool = False

    @property
    def encode(self) -> str:
        """The method call that turns text into bytes."""
        return 'encode("utf-8", "surrogateescape")' if self.careful else "encode()"


def run(source: str, names: Names) -> dict[str, Any]:
    """The functions of a source by name, among everything else that it sees."""
    return codegen.run(source, names, NAMES)


def missing(record: Record) -> list[tuple[str, Field]]:
    """Fields of a struct that this version does not carry; they have their defaults when it is read."""
    carried = {slot.name for slot in (*record.slots, *record.tagged)}
    return [(name, field) for name, field in schema_of(record.type).fields.items() if name not in carried]
