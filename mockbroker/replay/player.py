"""The choice of the recorded response for a live request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.redact import redact
from mockbroker.replay.differences import nearest
from mockbroker.replay.fetches import Fetches, has_content
from mockbroker.replay.keys import is_repeated, key_of
from mockbroker.replay.produced import ProducedRecords
from mockbroker.replay.script import Answered, Script
from mockbroker.replay.variables import Variables, ids_in, rewrite

MS = 1_000


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to a live request.

    Attributes:
        response: the decoded response, with the ids of the live client.
        version: version of the response.
        latency: seconds from the request to the response in the recording.
        waits: True if the latency is the maximum wait in the request. The method ``delay`` does not shorten such a
            latency.
    """

    response: Any
    version: int
    latency: float
    waits: bool = False

    def delay(self, speed: float) -> float:
        """Return the seconds until the response is sent.

        ``speed``: factor by which the replay is faster than the recording.
        """
        return self.latency if self.waits else self.latency / speed


@dataclass(frozen=True, slots=True)
class Departure:
    """A departure from the recording: the result for a request that is not in the recording.

    Attributes:
        reason: the difference from the recording, as text.
    """

    reason: str


class Player:
    """The state of one replay.

    A request gets the first unused response to an equal recorded request, preferably of the same client id. A Fetch
    gets the recorded records at its partitions and offsets, and a Produce with the recorded records in other batches
    gets their offsets. If clients send a request more often than in the recording, the last response is repeated for
    the APIs in ``keys.REPEATED``, but no REBALANCE_IN_PROGRESS of a Heartbeat. If the recording has no response for a
    heartbeat of a recorded member, the heartbeat succeeds.

    Args:
        script: the recording.
    """

    def __init__(self, script: Script) -> None:
        self._calls = script.calls
        self._fetches = Fetches(script.calls)
        self._produced = ProducedRecords(script.calls)
        self._variables = Variables()
        self._levels: tuple[dict[Hashable, list[Answered]], ...] = (defaultdict(list), defaultdict(list))
        self._server_made: set[str] = set()  # ids in responses whose request did not have them
        self._joined = {  # group, generation and member
            (call.request.group_id, call.response.generation_id, call.response.member_id)
            for call in script.calls
            if call.api_key == ApiKey.JOIN_GROUP and not call.response.error_code
        }
        for call in script.calls:
            for loose, level in enumerate(self._levels):
                level[key_of(call.request, call.version, loose=bool(loose))].append(call)
            self._server_made.update(_ids(call.response, call.response_version))
        for call in script.calls:
            if call.api_key != ApiKey.JOIN_GROUP:
                self._server_made.difference_update(_first_ids(call))

    def answer(self, version: int, client_id: str | None, request: Any) -> Answer | Departure:
        """Return the recorded response to a request, or a Departure with the reason why the recording has no response.

        Unless the request is a Fetch, the recorded response then counts as used, and the ids in the recorded and the
        live request become pairs. Secrets in the request are redacted, as they are in recordings.

        Args:
            version: API version of the request.
            client_id: client id in the header of the request.
            request: the decoded request.
        """
        redact(request)
        if request.__kafka__.api.key == ApiKey.FETCH:
            return self._fetch(request, version)
        found = self._find(request, version, client_id)
        if found is None:
            return self._unrecorded(request, version)
        found.is_used = True
        for recorded, live in zip(ids_in(found.request, version), ids_in(request, version), strict=True):
            self._variables.bind(recorded, live)
        response = deepcopy(found.response)
        rewrite(response, found.response_version, lambda _, text: self._variables.live(text))
        return Answer(response, found.response_version, found.latency)

    def _unrecorded(self, request: Any, version: int) -> Answer | Departure:
        """Return the response to a request that is not equal to any recorded request.

        Args:
            request: the decoded request.
            version: API version of the request.
        """
        if self._is_timed(request):
            return Answer(HeartbeatResponse(), version, 0.0)
        if request.__kafka__.api.key == ApiKey.PRODUCE and (made := self._produced.response(request, version)):
            return Answer(made[0], version, made[1])
        return Departure(self._reason(request, version))

    def _is_timed(self, request: Any) -> bool:
        """Return whether a request is a heartbeat of a recorded member in a recorded generation.

        A client sends heartbeats at regular times, so a live client may send a heartbeat that is not in the recording.
        """
        return (
            isinstance(request, HeartbeatRequest)
            and (request.group_id, request.generation_id, request.member_id) in self._joined
        )

    def _fetch(self, request: Any, version: int) -> Answer | Departure:
        response = self._fetches.response(request, version)
        if response is None:
            return Departure(self._reason(request, version))
        if has_content(response):
            return Answer(response, version, 0.0)
        return Answer(response, version, max(request.max_wait_ms, 0) / MS, waits=True)

    def _find(self, request: Any, version: int, client_id: str | None) -> Answered | None:
        live = list(ids_in(request, version))
        buckets = [
            [
                call
                for call in level.get(key_of(request, version, loose=bool(loose)), ())
                if self._agree(list(ids_in(call.request, version)), live)
            ]
            for loose, level in enumerate(self._levels)
        ]
        for bucket in buckets:
            unused = [call for call in bucket if not call.is_used]
            if unused:
                return next((call for call in unused if call.client_id == client_id), unused[0])
        if is_repeated(request):
            return next((call for bucket in buckets for call in reversed(bucket) if not _begins_rebalance(call)), None)
        return None

    def _agree(self, recorded: Iterable[str], live: Iterable[str]) -> bool:
        return all(
            one == two if two in self._server_made or one in self._server_made else self._variables.can_bind(one, two)
            for one, two in zip(recorded, live, strict=True)
        )

    def _reason(self, request: Any, version: int) -> str:
        """Return the reason why a request gets no response.

        The reason is one of these: the recording has no request of this API and version; the request was sent more
        often than in the recording; the first difference from the recorded request with the fewest differences, from
        the recorded records for a Produce, or from the recorded partitions for a Fetch.

        Args:
            request: the decoded request.
            version: API version of the request.
        """
        api = request.__kafka__.api
        name = f"{api.name} v{version}"
        same = [call for call in self._calls if call.api_key == api.key and call.version == version]
        if not same:
            others = sorted({call.version for call in self._calls if call.api_key == api.key})
            return f"{name} is not in the recording" + (
                f", which has v{', v'.join(map(str, others))}" if others else ""
            )
        if api.key == ApiKey.FETCH:
            return f"{name} is not in the recording: {self._fetches.difference(request, version)}"
        if api.key == ApiKey.PRODUCE and self._produced.has_records(request, version):
            return f"{name} was sent more often than in the recording"
        if api.key == ApiKey.PRODUCE and (found := self._produced.difference(request, version)):
            return f"{name} is not in the recording: {found}"
        first, equal = nearest(request, version, same, lambda one, two: self._agree([one], [two]))
        if equal:
            return f"{name} was sent more often than in the recording ({equal} times)"
        return f"{name} is not in the recording: {first}"


def _begins_rebalance(call: Answered) -> bool:
    """Return whether a recorded response is a Heartbeat with REBALANCE_IN_PROGRESS.

    If it were repeated, a member that rejoins in the same generation would rejoin without end.

    ``call``: the recorded request with its response.
    """
    return isinstance(call.response, HeartbeatResponse) and call.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def _ids(message: Any, version: int) -> set[str]:
    return set(ids_in(message, version))


def _first_ids(call: Answered) -> set[str]:
    """Return the ids in the first heartbeat of a member that generates its member id (KIP-848): the member id, as a
    set.

    The set is empty for any other call.
    """
    if getattr(call.request, "member_epoch", None) == 0:
        return _ids(call.request, call.version)
    return set()
