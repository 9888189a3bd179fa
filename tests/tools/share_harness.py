"""Members of share groups on a broker without sockets: their fetches, acknowledgements and acquired records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.broker_harness import BrokerHarness, SentRequest

from kwire.messages.share_acknowledge import ShareAcknowledgeRequest
from kwire.messages.share_fetch import ShareFetchRequest
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.broker.fetch.completion import complete_delayed_fetches
from mockbroker.share.state import ShareState, StateKey
from mockbroker.topics.model import Partition

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
VERSION = 2
Acknowledged = tuple[int, int, Sequence[int]]  # first offset, last offset, types
Ranges = list[tuple[int, int, int]]  # first offset, last offset, deliveries


class ShareHarness(BrokerHarness):
    """A broker harness for share groups. ``topics``: name -> number of partitions with an initialized share state."""

    def __init__(self, topics: Mapping[str, int] | None = None, *, start: int = 0, **how: Any) -> None:
        topics = topics or {"t": 1}
        super().__init__(topics=topics, **how)
        for name, count in topics.items():
            for index in range(count):
                self.broker.share_states.initialize(self.key(name, index), 1, start, 0.0)

    def key(self, topic: str = "t", index: int = 0, group: str = "g") -> StateKey:
        return StateKey(group, self.topic_id(topic), index)

    def partition(self, topic: str = "t", index: int = 0) -> Partition:
        return self.broker.cluster.topics[topic].partitions[index]

    def produce(self, *counts: int, topic: str = "t", index: int = 0) -> None:
        """Append a batch for each count of records, and complete the delayed fetches."""
        partition = self.partition(topic, index)
        for count in counts:
            records = [Record(value=b"%d" % number, timestamp=1_000) for number in range(count)]
            partition.append(read_batch(build_batch(records)))
        self._take(self.router.finish(complete_delayed_fetches(self.broker, [partition]), self.now))
        self.wait(0.0)

    def stored(self, topic: str = "t", index: int = 0) -> ShareState:
        """Return the state that the share coordinator reads from its log."""
        states = self.broker.share_states
        key = self.key(topic, index)
        states.load(self.broker.share_state_topic().partition_of(key.coordinator_key))
        state = states.read(key, self.partition(topic, index).leader_epoch, self.now)
        assert isinstance(state, ShareState)
        return state

    def disconnect(self, sent: SentRequest) -> None:
        self.router.forget(sent.ticket)
        self.router.forget_connection(sent.ticket.connection)
        self.wait(0.0)

    def apply(self, effects: Any) -> None:
        self._take(self.router.finish(effects, self.now))
        self.wait(0.0)


@dataclass(slots=True, kw_only=True)
class Sharer:
    """A member with a share session on one broker."""

    h: ShareHarness
    name: str = "a"
    topic: str = "t"
    node: int | None = None
    epoch: int = 0
    session: list[SentRequest] = field(default_factory=list)  # the request that created it

    def send(
        self, *partitions: int, acknowledge: Sequence[Acknowledged] = (), forget: Sequence[int] = (), **changes: Any
    ) -> SentRequest:
        kind = ShareFetchRequest.Topic.Partition
        batches = [
            kind.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
            for first, last, types in acknowledge
        ]
        named = [kind(partition_index=index, acknowledgement_batches=batches) for index in partitions]
        id_ = self.h.topic_id(self.topic)
        forgotten = [ShareFetchRequest.ForgottenTopic(topic_id=id_, partitions=list(forget))] if forget else []
        request = ShareFetchRequest(
            **{
                "group_id": "g",
                "member_id": self.name,
                "share_session_epoch": self.epoch,
                "max_wait_ms": 0,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 500,
                "batch_size": 500,
                "topics": [ShareFetchRequest.Topic(topic_id=id_, partitions=named)] if named else [],
                "forgotten_topics_data": forgotten,
                **changes,
            }
        )
        sent = self.h.send(request, VERSION, node=self.node)
        if self.epoch == 0:
            self.session.append(sent)
        self.epoch += 1
        return sent

    def fetch(self, *partitions: int, **how: Any) -> Any:
        sent = self.send(*partitions, **how)
        assert sent.answer is not None, f"no answer: {sent.closed or 'parked'}"
        return sent.answer

    def acquire(self, *partitions: int, **how: Any) -> Ranges:
        return acquired(self.fetch(*partitions, **how))

    def acknowledge(self, *acknowledged: Acknowledged, index: int = 0, **changes: Any) -> Any:
        """Send ShareAcknowledge; return the response of the partition, or the whole response if it has an error."""
        kind = ShareAcknowledgeRequest.Topic.Partition
        batches = [
            kind.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
            for first, last, types in acknowledged
        ]
        named = kind(partition_index=index, acknowledgement_batches=batches)
        id_ = self.h.topic_id(self.topic)
        request = ShareAcknowledgeRequest(
            **{
                "group_id": "g",
                "member_id": self.name,
                "share_session_epoch": self.epoch,
                "topics": [ShareAcknowledgeRequest.Topic(topic_id=id_, partitions=[named])],
                **changes,
            }
        )
        answer = self.h.ask(request, VERSION, node=self.node)
        if answer.error_code:
            return answer
        self.epoch += 1
        return answer.responses[0].partitions[0] if answer.responses else answer


def acquired(answer: Any) -> Ranges:
    """Return the acquired records of all partitions in a ShareFetch response."""
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in answer.responses
        for partition in topic.partitions
        for each in partition.acquired_records
    ]
