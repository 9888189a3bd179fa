"""The contents of a recording: the requests of all clients with their responses, and the brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from kwire.messages.api_versions import ApiVersionsResponse
from kwire.messages.produce import ProduceResponse
from mockbroker.proxy.addresses import ENTRIES, addresses_of

if TYPE_CHECKING:  # it needs an extra
    from kwire.capture import Call

US = 1_000_000
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")


@dataclass(slots=True, eq=False)
class Answered:
    """A recorded request with its response.

    Attributes:
        version: API version of the request.
        response_version: version of the response. It differs from ``version`` only for ApiVersions.
        latency: seconds from the request to the response.
        is_used: True if a live request was answered with this response.
        api_key: API key of the request.
        client_id: client id of the request; None if it is null.
        request: the decoded request.
        response: the decoded response.
    """

    api_key: int
    version: int
    client_id: str | None
    request: Any
    response: Any
    response_version: int
    latency: float
    is_used: bool = False


@dataclass(slots=True)
class Script:
    """The contents of a recording.

    Attributes:
        calls: requests with their responses, in the order of the requests. A Produce with acks=0 has an empty response.
        nodes: ids of the brokers.
        topics: number of partitions of each topic, by name.
        left_out: number of calls that are not in ``calls``, because they have no response or cannot be decoded. Calls
            for which a replay needs no response are not counted.
    """

    calls: list[Answered] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    topics: dict[str, int] = field(default_factory=dict)
    left_out: int = 0

    @classmethod
    def of(cls, calls: Iterable[Call]) -> Script:
        """Return the script of captured calls. ``calls``: the calls, in the order of the capture."""
        script = cls()
        nodes: set[int] = set()
        for call in sorted(calls, key=lambda call: (call.request_us or 0, call.number)):
            answered = list(_answered(call))
            script.left_out += not answered and not _is_expendable(call)
            script.calls += answered
            if call.response is not None and call.api_key in ENTRIES:
                nodes.update(addresses_of(call.api_key or 0, call.response))
            if call.response is not None and call.api_key == ApiKey.METADATA:
                found = ((topic.name, len(topic.partitions)) for topic in call.response.topics if topic.partitions)
                script.topics.update((name, count) for name, count in found if name not in INTERNAL_TOPICS)
        script.nodes = sorted(nodes)
        return script

    def api_versions(self) -> list[ApiVersionsResponse.ApiVersion]:
        """Return a list with one element: the supported versions of ApiVersions, from a recorded ApiVersions response.

        The list is empty if the recording contains no ApiVersions response.

        The response to an ApiVersions request in an unsupported version contains this list, so that the client can
        retry in a supported version.
        """
        responses = [call.response for call in self.calls if call.api_key == ApiKey.API_VERSIONS]
        entries = [entry for response in responses for entry in response.api_keys]
        return [entry for entry in entries if entry.api_key == ApiKey.API_VERSIONS][:1]


def _answered(call: Call) -> Iterator[Answered]:
    if call.request is None or call.api_key is None or call.api_version is None:
        return
    if call.response is None:
        if _has_no_response(call):
            version = call.api_version
            yield Answered(call.api_key, version, call.client_id, call.request, ProduceResponse(), version, 0.0)
        return
    assert call.response_version is not None
    latency = max(0, (call.response_us or 0) - (call.request_us or 0)) / US
    yield Answered(
        call.api_key, call.api_version, call.client_id, call.request, call.response, call.response_version, latency
    )


def _is_expendable(call: Call) -> bool:
    """Return whether a replay needs no recorded response for a call: an ApiVersions of a version that is newer than
    those of the broker.
    """
    return call.request is None and call.api_key == ApiKey.API_VERSIONS


def _has_no_response(call: Call) -> bool:
    return call.api_key == ApiKey.PRODUCE and bool(call.request.acks == 0)
