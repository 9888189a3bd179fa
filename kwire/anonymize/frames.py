"""Conversion of a capture to a recording with anonymized frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kwire.anonymize.bodies import Bodies
from kwire.anonymize.pseudonyms import Pseudonyms
from kwire.capture import Call, Connection, Reading, Skipped
from kwire.capture.calls.model import NOT_READ, SASL_TOKEN
from kwire.capture.rows import in_order
from kwire.envelope import decode_request, decode_response, encode_request, encode_response
from kwire.errors import WireError
from kwire.recording import RecordingWriter

NOT_RECORDED = "not captured completely, or not decoded"
NOT_KAFKA = "connections that are not plain Kafka"
PACKETS = "packets without Kafka frames"
DAMAGE = "damaged places of the input"


class Anonymizer:
    """A converter of a capture to a recording in which names, keys, values and other text are replaced.

    Args:
        names: pseudonyms of text and bytes.
        writer: writer of the recording.
        keep_topics: True to keep the names and ids of topics.

    Attributes:
        written: number of frames in the recording.
        dropped: numbers of input data that are not in the recording, by kind: requests, responses, record batches,
            connections that are not Kafka, packets, and damaged positions.
    """

    def __init__(self, names: Pseudonyms, writer: RecordingWriter, *, keep_topics: bool = False) -> None:
        self.written = 0
        self._bodies = Bodies(names, keep_topics=keep_topics)
        self.dropped: Counter[str] = self._bodies.dropped
        self._names = names
        self._writer = writer
        self._numbers: dict[str, int] = {}  # of open connections
        self._count = 0

    def convert(self, reading: Reading) -> Iterator[bytes]:
        """Yield the bytes of the recording, in parts; update ``written`` and ``dropped``.

        Args:
            reading: reader of the capture, which was opened with ``raw`` (it keeps the bytes of frames) and without
                ``redacted`` (it keeps secrets, which this class replaces).
        """
        yield self._writer.begin()
        for item in in_order(reading, every_connection=True):
            if isinstance(item, tuple):
                yield from self._frame(*item)
            elif isinstance(item, Connection):
                yield self._ended(item)
            elif isinstance(item, Skipped):
                self.dropped[PACKETS] += item.packets
            else:
                self.dropped[DAMAGE] += 1

    def _frame(self, call: Call, is_response: bool) -> Iterator[bytes]:
        try:
            frame = self._response(call) if is_response else self._request(call)
        except WireError:
            frame = None
        if frame is None:
            kind = "responses" if is_response else "requests"
            self.dropped[f"{kind} that were {NOT_RECORDED}"] += 1
            return
        time_us = call.response_us if is_response else call.request_us
        assert time_us is not None
        number = self._numbers.get(call.connection)
        if number is None:
            number = self._numbers[call.connection] = self._count = self._count + 1
            client, broker = self._names.endpoint(call.client), self._names.endpoint(call.broker)
            yield self._writer.opened(number, client, broker, time_us)
        yield self._writer.frame(number, not is_response, frame, time_us)
        self.written += 1

    def _request(self, call: Call) -> bytes | None:
        """Return the frame of the anonymized request of a call.

        The result is None for a SASL token, and for a request that was not captured or whose API key is unknown.

        Raises: WireError if the bytes of the request are not valid.
        """
        if call.request_raw is None or call.api_key is None or call.reason == SASL_TOKEN:
            return None
        request = decode_request(call.request_raw)
        self._bodies.replace(request.body, request.version)
        header = request.header
        if header.client_id is not None:
            header.client_id = self._names.text(header.client_id)
        if unknown := getattr(header, "unknown_tags", None):
            header.unknown_tags = self._bodies.tags(unknown)  # type: ignore[attr-defined]
        frame = encode_request(request.body, request.version, correlation_id=header.correlation_id, header=header)
        return frame + self._names.data(request.trailing)

    def _response(self, call: Call) -> bytes | None:
        """Return the frame of the anonymized response of a call.

        The result is None if the response was not captured, or its API key or version is unknown.

        Raises: WireError if the bytes of the response are not valid.
        """
        if call.response_raw is None or call.api_key is None or call.api_version is None:
            return None
        response = decode_response(call.response_raw, call.api_key, call.api_version)
        self._bodies.replace(response.body, response.version)
        header = response.header
        if unknown := getattr(header, "unknown_tags", None):
            header.unknown_tags = self._bodies.tags(unknown)  # type: ignore[attr-defined]
        frame = encode_response(response.body, response.version, correlation_id=header.correlation_id, header=header)
        return frame + self._names.data(response.trailing)

    def _ended(self, connection: Connection) -> bytes:
        number = self._numbers.pop(connection.id, None)
        if connection.status in NOT_READ:
            self.dropped[NOT_KAFKA] += 1
        if number is None:
            return b""
        return self._writer.closed(number, connection.last_us, reset=connection.closed == "rst")
