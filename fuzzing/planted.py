"""Changes that make the broker slow. fuzzing/cost.py must find each in the requests of one API."""

from __future__ import annotations

from typing import NamedTuple


class Planted(NamedTuple):
    """A change of the source of ``module`` from ``old`` to ``new``, which makes requests of ``api`` too expensive."""

    what: str
    api: str
    module: str
    old: str
    new: str


PLANTED = (
    Planted(
        "all partitions are counted for each new topic",
        "CreateTopics",
        "mockbroker.topics.model",
        "return self.partition_count + partitions <= MAX_PARTITIONS",
        "return len(self.partitions()) + partitions <= MAX_PARTITIONS",
    ),
    Planted(
        "names are looked for in a list",
        "DeleteGroups",
        "mockbroker.broker.handlers.delete_groups",
        "for group_id in dict.fromkeys(call.request.groups_names):",
        "for group_id in [name for name in call.request.groups_names if name in list(call.request.groups_names)]:",
    ),
    Planted(
        "all users are read for each",
        "DescribeUserScramCredentials",
        "mockbroker.security.users",
        "credentials = ((mechanism, self.scram.get((user, mechanism))) for mechanism in SCRAM_NUMBERS)",
        "credentials = ((mechanism, kept) for (name, mechanism), kept in self.scram.items() if name == user)",
    ),
    Planted(
        "text grows by being copied",
        "FindCoordinator",
        "mockbroker.broker.handlers.find_coordinator",
        "    if call.version >= BATCHED_SINCE:\n",
        "    if call.version >= BATCHED_SINCE:\n        for key in request.coordinator_keys:\n"
        "            request.key = request.key + key + key + key + key\n",
    ),
    Planted(
        "a list is sorted for each element",
        "DeleteRecords",
        "mockbroker.broker.handlers.delete_records",
        "    truncated.append(partition)\n",
        "    truncated.append(partition)\n    truncated.sort(key=id)\n",
    ),
    Planted(
        "a list is counted for each element",
        "CreateTopics",
        "mockbroker.broker.handlers.create_topics",
        "        if counts[topic.name] > 1:\n",
        "        if list(map(id, call.request.topics)).count(id(topic)) > 1:\n",
    ),
    Planted(
        "elements are put in at the front",
        "LeaveGroup",
        "mockbroker.groups.classic.leave",
        "        answers.append(replies.leave_response_member(leaving, error))\n    effects",
        "        answers.insert(0, replies.leave_response_member(leaving, error))\n    effects",
    ),
    Planted(
        "a sum of what is there, in C",
        "OffsetCommit",
        "mockbroker.broker.handlers.offset_commit",
        "        topic.partitions.append(",
        "        sum(map(id, topic.partitions))\n        topic.partitions.append(",
    ),
    Planted(
        "subscriptions are read for each topic",
        "OffsetDelete",
        "mockbroker.broker.handlers.offset_delete",
        "_delete(broker, group, topic, subscribed, topics",
        "_delete(broker, group, topic, broker.groups.types.of(group).subscribed_topics(group), topics",
    ),
    Planted(
        "a topic that is named twice is answered twice",
        "Metadata",
        "mockbroker.broker.handlers.metadata",
        "names = dict.fromkeys(topic.name for topic in requested if topic.name is not None)",
        "names = [topic.name for topic in requested if topic.name is not None]",
    ),
)
