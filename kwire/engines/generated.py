"""Common parts of generated readers and writers: options, struct codes, and the globals of their source."""

from __future__ import annotations

from functools import cache
from itertools import repeat
from struct import Struct
from typing import Any

from kwire import codegen
from kwire.codegen import Names
from kwire.engines import runtime
from kwire.layout import Record
from kwire.lazy_dataclass import dataclass
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


# Globals of every generated source, next to its own definitions; compiled.ORIGINS documents them.
NAMES: dict[str, Any] = {
    **{name: thing for name, thing in vars(runtime).items() if not name.startswith("_")},
    "Struct": Struct,
    "unpackers": cache(runtime.Unpackers),
    "packers": cache(runtime.Packers),
    "new": object.__new__,
    "repeat": repeat,
    "NO_TAGS": {},
    "NO_LIMIT": 2**62,
}


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """Options of a generated reader (a function that decodes). Each option makes decoding slower, so readers are
    generated without options where possible.

    Attributes:
        weighed: True to check the memory of decoded arrays against a maximum.
        escaped: True to decode text that is not UTF-8 with surrogate escapes.
        sliced: True to generate a reader that is a generator; its last argument is the number of array elements between
            two yields.
    """

    weighed: bool = False
    escaped: bool = False
    sliced: bool = False

    @property
    def decode(self) -> str:
        """The Python source of the call that decodes bytes to text, such as ``.decode()``."""
        return 'decode("utf-8", "surrogateescape")' if self.escaped else "decode()"


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """Options of a generated writer (a function that encodes).

    Attributes:
        careful: True to encode every text: surrogate escapes as the original bytes, and text of any length. False for a
            faster writer, which raises UnicodeEncodeError for surrogate escapes, and IndexError for a text whose length
            needs a varint of several bytes.
        sliced: True to generate a writer that is a generator; its second argument is the number of array elements
            between two yields.
    """

    careful: bool = False
    sliced: bool = False

    @property
    def encode(self) -> str:
        """The Python source of the call that encodes text to bytes, such as ``.encode()``."""
        return 'encode("utf-8", "surrogateescape")' if self.careful else "encode()"


def run(source: str, names: Names) -> dict[str, Any]:
    """Execute Python source, and return its global variables by name.

    The result has the variables that the source defines, such as functions, and the variables that are passed in.

    Args:
        source: Python source.
        names: global variables that the source may use, by name.
    """
    return codegen.run(source, names, NAMES)


def missing(record: Record) -> list[tuple[str, Field]]:
    """Return name and declaration of each field that a message version lacks. A reader sets such a field to its
    default.

    ``record``: layout of a struct in that version.
    """
    carried = {slot.name for slot in (*record.slots, *record.tagged)}
    return [(name, field) for name, field in schema_of(record.type).fields.items() if name not in carried]
