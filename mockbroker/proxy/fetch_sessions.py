"""The partitions of the fetch sessions at the real brokers.

The proxy learns the partitions from the Fetch requests and responses that pass through the fault rules.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeAlias
from uuid import UUID

from kwire.messages.fetch import FetchRequest

INITIAL, FINAL = 0, -1  # session epochs of requests that name all their partitions
SESSIONS = 1_000  # maximum number that are kept
Key: TypeAlias = tuple[str, UUID, int]  # topic name or topic id, whichever the version has, and partition


class ObservedFetchSessions:
    """The partitions of the fetch sessions at one real broker.

    At most SESSIONS sessions are kept; the least recently used one is dropped.
    """

    def __init__(self) -> None:
        self._sessions: OrderedDict[int, dict[Key, None]] = OrderedDict()

    def begin(self, session_id: int, request: FetchRequest) -> None:
        """Store a fetch session that a broker has created.

        Args:
            session_id: id of the session, from the response.
            request: the full Fetch request to which the broker has responded, with all partitions of the session.
        """
        self._sessions[session_id] = dict.fromkeys(_requested(request))
        self._sessions.move_to_end(session_id)
        if len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)

    def partitions_of(self, request: FetchRequest, version: int) -> list[Key] | None:  # noqa: ARG002
        """Update a known fetch session from an incremental Fetch request, and return all partitions of the session.

        The result is None if the request is a full Fetch, ends its session or belongs to an unknown session.

        Args:
            request: the Fetch request.
            version: API version of the request; not used.
        """
        session = self._sessions.get(request.session_id)
        if request.session_epoch in (INITIAL, FINAL) or session is None:
            return None
        self._sessions.move_to_end(request.session_id)
        session |= dict.fromkeys(_requested(request))
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                session.pop((topic.topic, topic.topic_id, index), None)
        return list(session)


def _requested(request: FetchRequest) -> Iterable[Key]:
    return ((topic.topic, topic.topic_id, each.partition) for topic in request.topics for each in topic.partitions)
