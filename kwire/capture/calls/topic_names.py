"""Topic names by topic id, from responses that contain both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from kwire.apikeys import ApiKey
from kwire.capture.calls.bodies import decoded
from kwire.capture.calls.model import Call
from kwire.capture.limits import MAX_TOPICS
from kwire.schema import ZERO_UUID

# Responses with names and ids of topics: name of the array of topics, by API key.
TOPICS_IN: Mapping[int, str] = {
    ApiKey.METADATA: "topics",
    ApiKey.CREATE_TOPICS: "topics",
    ApiKey.DELETE_TOPICS: "responses",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "topics",
}
# Responses with topics that members own: name of the array of groups, by API key.
MEMBERS_IN: Mapping[int, str] = {
    ApiKey.CONSUMER_GROUP_DESCRIBE: "groups",
    ApiKey.SHARE_GROUP_DESCRIBE: "groups",
}
NAMING_APIS = frozenset({*TOPICS_IN, *MEMBERS_IN})


class TopicNames(dict[UUID, str]):
    """The topic names by topic id that responses of a capture contain.

    Limits: MAX_TOPICS topic ids.
    """

    def learn(self, call: Call) -> None:
        """Add the topic names that the response of a call contains, up to MAX_TOPICS names. Zero ids are ignored."""
        if call.response is None:
            return
        for topic_id, name in topics_in(call.api_key or 0, decoded(call, is_response=True)):
            if name and topic_id != ZERO_UUID and (len(self) < MAX_TOPICS or topic_id in self):
                self[topic_id] = name


def topics_in(key: int, response: Any) -> Iterator[tuple[UUID, str | None]]:
    """Yield each topic id in a response with its topic name; the name is None if the response does not contain it.

    Args:
        key: API key of the response.
        response: decoded response.
    """
    if key in TOPICS_IN:
        for topic in getattr(response, TOPICS_IN[key]) or ():
            yield topic.topic_id, topic.name
    elif key in MEMBERS_IN:
        for group in response.groups:
            for member in group.members:
                for name in ("assignment", "target_assignment"):
                    assignment = getattr(member, name, None)
                    for topic in assignment.topic_partitions if assignment else ():
                        yield topic.topic_id, topic.topic_name
