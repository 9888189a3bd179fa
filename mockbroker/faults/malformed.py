"""The forms of malformed responses, with their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from kwire.lazy_dataclass import dataclass

Part: TypeAlias = Literal["frame", "array", "length", "records", "api_versions"]

INT8, INT16, INT32 = ((-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32))
NOT_NEGATIVE = (0, INT32[1])
POSITIVE = (1, INT32[1])
MOST_GARBAGE = 1 << 20  # bytes; more would show a client nothing else
SMALLEST_BOMB = 64  # bytes: enough for a record or message with a value
LARGEST_BOMB = 1 << 30  # bytes; compressed about a thousandth of them


@dataclass(frozen=True, slots=True)
class Number:
    """The declaration of a parameter that is an integer.

    Attributes:
        lowest: The lowest value.
        highest: The highest value.
        default: The value if the rule does not set the parameter.
    """

    lowest: int
    highest: int
    default: int


@dataclass(frozen=True, slots=True)
class FieldPath:
    """The declaration of a parameter that is the path of a response field, such as ``topics.partitions``.

    The default is the first field that the form can change.
    """


@dataclass(frozen=True, slots=True)
class Form:
    """A form of malformed response, such as a truncated frame.

    Attributes:
        part: The part that the response must contain: "frame" (any response), "array", "length" (a field with a
            length), "records" or "api_versions" (the list in an ApiVersions response).
        parameters: Declarations of the parameters by name.
        description: Description of the malformation.
    """

    part: Part
    parameters: Mapping[str, Number | FieldPath]
    description: str

    @property
    def what(self) -> str:
        """The kind of field that the form changes, as a noun phrase for messages."""
        return {"array": "array", "length": "string, array or bytes", "records": "records"}.get(self.part, "field")


FORMS: Mapping[str, Form] = {
    "length": Form("frame", {"value": Number(*INT32, -1)}, "the frame length has this value"),
    "correlation_id": Form("frame", {"add": Number(*INT32, 1)}, "this number is added to the correlation id"),
    "truncate": Form("frame", {"bytes": Number(*NOT_NEGATIVE, 5)}, "the frame is complete after so many bytes"),
    "garbage": Form("frame", {"bytes": Number(1, MOST_GARBAGE, 64)}, "the body is so many random bytes"),
    "null_array": Form("array", {"field": FieldPath()}, "an array that cannot be null is null"),
    "negative_length": Form(
        "length", {"field": FieldPath(), "value": Number(INT32[0], -1, -2)}, "a string, array or bytes has this length"
    ),
    "huge_array": Form(
        "array", {"field": FieldPath(), "count": Number(*POSITIVE, INT32[1])}, "an array announces so many elements"
    ),
    "unknown_version": Form(
        "api_versions", {"add": Number(1, INT16[1], 100)}, "every API has so many more versions than Kafka has"
    ),
    "crc": Form("records", {"add": Number(*INT32, 1)}, "this number is added to the CRC of the first batch"),
    "magic": Form("records", {"value": Number(*INT8, 99)}, "the magic of the first batch has this value"),
    "record_count": Form("records", {"value": Number(*INT32, INT32[1])}, "the first batch announces so many records"),
    "decompression_bomb": Form(
        "records", {"bytes": Number(SMALLEST_BOMB, LARGEST_BOMB, 100 << 20)}, "a batch is decompressed to so many bytes"
    ),
    "corrupt_values": Form("records", {}, "the values of the records are changed, and the CRC is valid"),
    "schema_id": Form(
        "records",
        {"id": Number(*NOT_NEGATIVE, INT32[1])},
        "the values of the records begin with this schema id, and the CRC is valid",
    ),
    "duplicate_records": Form("records", {"count": Number(1, 1_000, 1)}, "the batches are sent so many times more"),
}
