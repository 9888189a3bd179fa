"""The checks of ``assert_no_commit_lost``, ``assert_owned_once`` and ``assert_requested``.

Each check returns the message of the failed assertion; "" if the assertion holds. The message shows the events and, if
the assertion is about requests or commits, the requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kwire import ErrorCode
from kwire.json.objects import to_json
from kwire.lazy_dataclass import dataclass
from mockbroker.api.groups import SET
from mockbroker.api.request_report import request_report
from mockbroker.api.snapshots import GroupSnapshot
from mockbroker.api.wait import event_report
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.journal import Event
from mockbroker.broker.request_log import Request
from mockbroker.topics.model import ClusterState

TopicPartition = tuple[str, int]
GONE = (EventKind.LEAVE, EventKind.EXPIRE)  # the member owns nothing afterwards
NOTHING: Mapping[str, list[int]] = {}


@dataclass(frozen=True, slots=True)
class Attempt:
    """An offset that a client sent in an OffsetCommit request, with the result.

    Attributes:
        request: The request.
        offset: The offset.
        answer: Name of the error in the response, such as NONE; "" if there is no response.
    """

    request: Request
    offset: int
    answer: str

    def __str__(self) -> str:
        answer = f"was answered with {self.answer}" if self.answer else "has no response"
        fault = f" (fault rule {self.request.fault})" if self.request.fault else ""
        seconds = self.request.time_ms / 1000
        return f"{self.request.client_id} committed {self.offset} at {seconds:g} s, which {answer}{fault}"


# --- commits ---


def lost_commits(
    group_id: str,
    events: Sequence[Event],
    requests: Iterable[Request],
    committed: Mapping[TopicPartition, int],
    topics: ClusterState,
) -> str:
    """Return the failure message about lost commits of a group; "" if no commit was lost.

    If the group has never committed an offset, the result is a failure message too.

    Args:
        group_id: id of the group.
        events: events of all groups, oldest first.
        requests: OffsetCommit requests of all groups.
        committed: the current committed offsets of the group, by topic and partition.
        topics: the topics of the cluster, to find the name for a topic id in a request.
    """
    own = [event for event in events if event.group == group_id]
    sent = [request for request in requests if request.body.group_id == group_id]
    commits = [event for event in own if event.event == EventKind.COMMIT]
    if not commits and not sent:
        problems = [f"group {group_id!r} has committed no offset"]
    else:
        problems = [*_decreases(commits), *_not_stored(commits, sent, committed, topics)]
    if not problems:
        return ""
    return "\n".join([*problems, *event_report(own), *request_report(f"OffsetCommit requests of {group_id}", sent)])


def _decreases(commits: Iterable[Event]) -> Iterator[str]:
    """Yield a description of each commit of a member that has decreased a committed offset.

    ``commits``: the commit events of the group, oldest first.
    """
    last: dict[TopicPartition, int] = {}
    for event in commits:
        for partition, offset in _offsets(event):
            before = last.get(partition, offset)
            if offset < before and event.reason != SET:
                who = event.client or event.reason
                yield (
                    f"the committed offset of {_named(partition)} went back from {before} to {offset} at "
                    f"{event.time_ms / 1000:g} s ({who})"
                )
            last[partition] = offset


def _not_stored(
    commits: Iterable[Event], sent: Iterable[Request], committed: Mapping[TopicPartition, int], topics: ClusterState
) -> Iterator[str]:
    """Yield a description of each partition whose commits were lost.

    Commits were lost if the committed offset is now lower than an offset that was stored or sent.

    Args:
        commits: the commit events of the group.
        sent: the OffsetCommit requests of the group.
        committed: the current committed offsets of the group, by topic and partition.
        topics: the topics of the cluster, to find the name for a topic id in a request.
    """
    highest: dict[TopicPartition, tuple[int, str]] = {}
    set_at: dict[TopicPartition, int] = {}  # when an administrator has set the offset: earlier commits do not count
    stored: set[tuple[TopicPartition, int, int]] = set()  # partition, offset and time of each commit
    for event in commits:
        for partition, offset in _offsets(event):
            stored.add((partition, offset, event.time_ms))
            if event.reason == SET:
                set_at[partition] = event.time_ms
                highest.pop(partition, None)
            if offset > highest.get(partition, (-1, ""))[0]:
                highest[partition] = (
                    offset,
                    f"{event.client or event.reason} committed {offset} at {event.time_ms / 1000:g} s",
                )
    for request in sent:
        for partition, attempt in _attempts(request, topics):
            is_event = (partition, attempt.offset, request.time_ms) in stored  # counted in the order of the events
            is_later = request.time_ms >= set_at.get(partition, 0)
            if is_later and not is_event and attempt.offset > highest.get(partition, (-1, ""))[0]:
                highest[partition] = attempt.offset, str(attempt)
    for partition, (offset, what) in sorted(highest.items()):
        now = committed.get(partition)
        if now is None or now < offset:
            yield f"the committed offset of {_named(partition)} is {'none' if now is None else now}, but {what}"


def _attempts(request: Request, topics: ClusterState) -> Iterator[tuple[TopicPartition, Attempt]]:
    answers: dict[tuple[Any, int], int] = {}
    for topic in () if request.response is None else request.response.topics:
        for each in topic.partitions:
            answers[topic.name or topic.topic_id, each.partition_index] = each.error_code
    for topic in request.body.topics:
        known = topics.by_id.get(topic.topic_id)
        name = topic.name or (str(topic.topic_id) if known is None else known.name)
        for each in topic.partitions:
            code = answers.get((topic.name or topic.topic_id, each.partition_index))
            answer = "" if code is None else ErrorCode(code).name
            yield (name, each.partition_index), Attempt(request, each.committed_offset, answer)


def _offsets(event: Event) -> Iterator[tuple[TopicPartition, int]]:
    for topic, partitions in event.offsets.items():
        for index, offset in partitions.items():
            yield (topic, index), offset


# --- ownership ---


def shared_ownership(
    group: GroupSnapshot, events: Sequence[Event], partitions: Mapping[str, int], topic: str | None = None
) -> str:
    """Return the failure message about partitions that had two owners at the same time, or have no owner now.

    The result is "" if the assertion holds. If no partition of the checked topics was ever assigned, the result is a
    failure message too.

    Args:
        group: the current state of the group.
        events: events of all groups, oldest first.
        partitions: number of partitions by topic.
        topic: name of the topic to check; None for all topics with assigned partitions.
    """
    own = [event for event in events if event.group == group.group_id]
    assigned = {
        name
        for event in own
        if event.event == EventKind.ASSIGN
        for name in event.assignment or ()
        if topic in (None, name)
    }
    if not assigned:
        of_topic = "" if topic is None else f" of topic {topic}"
        problems = [f"no partition{of_topic} was assigned in group {group.group_id!r}"]
    else:
        problems = [*_doubly_owned(own, assigned), *_unowned(group, assigned, partitions)]
    return "\n".join([*problems, *event_report(own)]) if problems else ""


def _doubly_owned(events: Iterable[Event], topics: set[str]) -> Iterator[str]:
    owners: dict[TopicPartition, str] = {}
    for event in events:
        if event.event == EventKind.GENERATION and event.leader:
            owners.clear()  # in a classic group, a generation replaces all earlier assignments
        elif event.event in GONE:
            owners = {partition: owner for partition, owner in owners.items() if owner != event.member_id}
        elif event.event == EventKind.ASSIGN:
            owners = {partition: owner for partition, owner in owners.items() if owner != event.member_id}
            for name, indexes in (event.assignment or NOTHING).items():
                for index in indexes if name in topics else ():
                    other = owners.setdefault((name, index), event.member_id)
                    if other != event.member_id:
                        yield (
                            f"{name}-{index} has two owners in generation {event.generation}, since "
                            f"{event.time_ms / 1000:g} s: {other} and {event.member_id}"
                        )


def _unowned(group: GroupSnapshot, topics: Iterable[str], partitions: Mapping[str, int]) -> Iterator[str]:
    """Yield a description of each partition that has no owner although the group is stable.

    Args:
        group: the current state of the group.
        topics: names of the topics to check.
        partitions: number of partitions by topic.
    """
    if group.state != "Stable":
        return
    owned = Counter(
        (name, index)
        for member in group.members
        for name, indexes in (member.assignment or NOTHING).items()
        for index in indexes
    )
    for name in sorted(topics):
        for index in range(partitions.get(name, 0)):
            if not owned[name, index]:
                yield f"{name}-{index} has no owner in generation {group.generation}"


# --- requests ---


def checked_where(api: str, where: str) -> None:
    """Validate the arguments ``api`` and ``where`` of ``assert_requested``.

    Args:
        api: Name of an API.
        where: Filter expression over the fields of the requests of the API; "" for no filter.

    Raises: ValueError if the API is unknown, or the expression is not valid.
    """
    from mockbroker.broker.handlers import HANDLERS
    from mockbroker.faults.parsing_match import parse_match
    from mockbroker.faults.sections import Problem, Section

    problems: list[Problem] = []
    parse_match(Section({"api": api, **({"where": where} if where else {})}, "", problems), HANDLERS)
    if problems:
        raise ValueError("\n".join(map(str, problems)))


def matching_requests(requests: Sequence[Request], where: str) -> list[int]:
    """Return the indexes of the requests whose body matches an expression.

    Args:
        requests: The requests.
        where: Expression in the language of ``kwire capture --where``; "" matches all requests.
    """
    from mockbroker.faults.where import compile_where

    if not where:
        return list(range(len(requests)))
    matches = compile_where(where)
    return [index for index, each in enumerate(requests) if matches(to_json(each.body, each.version))]


def wrong_number(
    api: str, requests: Sequence[Request], matching: Sequence[int], expected: str, where: str, events: Sequence[Event]
) -> str:
    """Return the failure message of ``assert_requested`` for an unexpected number of requests.

    Args:
        api: Name of the API.
        requests: All requests of the API.
        matching: Indexes in ``requests`` of the requests that match.
        expected: The expected number as text, such as ``at least 1``.
        where: The filter expression that requests must match; "" for none.
        events: All events.
    """
    condition = f" where {where}" if where else ""
    title = f"{api} requests{' (* matches)' if where else ''}"
    return "\n".join(
        [
            f"expected {expected} {api} requests{condition}, found {len(matching)}",
            *request_report(title, requests, set(matching) if where else ()),
            *event_report(list(events)),
        ]
    )


def _named(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"
