"""Clients in the simulation that set the offsets of share groups, and that store the state of share partitions."""

from __future__ import annotations

from math import inf
from typing import Any

from kwire import ErrorCode as E
from kwire.json.objects import uuid_text
from kwire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kwire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kwire.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kwire.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kwire.messages.read_share_group_state import ReadShareGroupStateRequest
from kwire.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.messages.write_share_group_state import WriteShareGroupStateRequest
from mockbroker.lab.simulation.clients.operator import Operator
from mockbroker.lab.simulation.history import NOTHING
from mockbroker.lab.simulation.network import Wire

GROUP, SHARE = 0, 2  # key types of FindCoordinator
FIND_VERSION = 6
ALTERED_OFFSETS = 50  # offsets that are set are lower
JOINING, LEAVING = 0, -1  # member epochs
OF_COORDINATORS = (E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR)
NO_SUCH_PARTITION = 99


class CoordinatorOperator(Operator):
    """An operator that sends its requests to a coordinator, and looks it up after a lost connection or an error."""

    key_type = GROUP

    def begin(self) -> None:
        super().begin()
        self._node: int | None = None

    def coordinator_key(self) -> str:
        """Return the key for FindCoordinator; "" if it is unknown."""
        return self.script.group

    def use_coordinator(self, wire: Wire) -> None:
        """Send the next request. ``wire``: connection to the coordinator."""
        raise NotImplementedError

    def operate(self, wire: Wire) -> None:
        key = self.coordinator_key()
        if self._node is not None:
            self.use_coordinator(self.leaders.wire(self._node))
        elif key:
            request = FindCoordinatorRequest(coordinator_keys=[key], key_type=self.key_type)
            self.request(wire, request, FIND_VERSION, self._coordinator_found)

    def _coordinator_found(self, answer: Any) -> None:
        (coordinator,) = answer.coordinators
        if not coordinator.error_code:
            self._node = coordinator.node_id

    def answered(self, what: str, error: int, *possible: E) -> None:
        """Check the error of a response. After an error of the coordinator, look up the coordinator again."""
        self.expect(what, error, {*possible, *OF_COORDINATORS})
        if error in OF_COORDINATORS:
            self._node = None

    def lost(self, wire: Wire) -> None:
        if wire.node == self._node:
            self._node = None


class ShareOffsetOperator(CoordinatorOperator):
    """A client that sets and deletes the offsets of a share group, and joins and leaves this group.

    The register of a partition is its start offset. While the group has a member, its offsets cannot be changed.

    Attributes:
        member_until: broker time until which the client is a member, seconds; -inf if it is not a member.
        uncertain: whether the client may be a member, because its last request had no response.
    """

    own_topic = "altered"
    own_partitions = 2

    def begin(self) -> None:
        super().begin()
        self.member_until, self.uncertain = -inf, self.life > 1
        self._member_id = f"member of {self.name}"

    def use_coordinator(self, wire: Wire) -> None:
        choices = [self._alter, self._alter, self._delete, self._describe, self._describe, self._alter_invalid]
        if not self.uncertain and self.member_until == -inf:
            choices.append(self._join)
        else:
            choices += [self._leave, self._leave]
        self.dice.pick(choices)(wire)

    def _time(self) -> float:
        return self.history.broker_time(self.queue.now)

    # --- membership ---

    def _join(self, wire: Wire) -> None:
        self.uncertain, sent_at = True, self._time()

        def joined(answer: Any) -> None:
            self.answered("ShareGroupHeartbeat", answer.error_code, E.NONE)
            self.uncertain = bool(answer.error_code)
            if not answer.error_code:
                self.member_until = sent_at + self.script.session

        self.request(wire, self._heartbeat(JOINING), 1, joined)

    def _leave(self, wire: Wire) -> None:
        self.uncertain = True

        def left(answer: Any) -> None:
            self.answered("leaving", answer.error_code, E.NONE, E.UNKNOWN_MEMBER_ID, E.GROUP_ID_NOT_FOUND)
            if answer.error_code not in OF_COORDINATORS:
                self.uncertain, self.member_until = False, -inf

        self.request(wire, self._heartbeat(LEAVING), 1, left)

    def _heartbeat(self, epoch: int) -> ShareGroupHeartbeatRequest:
        topics = [self.own_topic] if epoch == JOINING else None
        return ShareGroupHeartbeatRequest(
            group_id=self.script.group, member_id=self._member_id, member_epoch=epoch, subscribed_topic_names=topics
        )

    def _possible(self) -> list[E]:
        """Return the errors that are possible for a change of the offsets, at the time of its response."""
        if self._time() < self.member_until and not self.uncertain:
            return [E.NON_EMPTY_GROUP]
        if self.uncertain or self.member_until > -inf:
            return [E.NONE, E.NON_EMPTY_GROUP]
        return [E.NONE]

    # --- offsets ---

    def _alter(self, wire: Wire) -> None:
        kind = AlterShareGroupOffsetsRequest.Topic
        values = {index: self.dice.below(ALTERED_OFFSETS) for index in range(self.own_partitions)}
        operations = {index: self.began(self._register(index), value) for index, value in values.items()}

        def altered(answer: Any) -> None:
            self.answered("AlterShareGroupOffsets", answer.error_code, *self._possible())
            errors = {each.partition_index: each.error_code for topic in answer.responses for each in topic.partitions}
            for index, operation in operations.items():
                error = errors.get(index, E.NONE)
                self.answered("AlterShareGroupOffsets of a partition", error, E.NONE)
                self.ended(operation, answer.error_code or error)

        lines = [kind.Partition(partition_index=index, start_offset=value) for index, value in values.items()]
        topics = [kind(topic_name=self.own_topic, partitions=lines)]
        self.request(wire, AlterShareGroupOffsetsRequest(group_id=self.script.group, topics=topics), 0, altered)

    def _alter_invalid(self, wire: Wire) -> None:
        kind, is_topic = AlterShareGroupOffsetsRequest.Topic, self.dice.chance(0.5)
        name, index = (self.own_topic, NO_SUCH_PARTITION) if is_topic else ("no-such-topic", 0)

        def altered(answer: Any) -> None:
            self.answered("AlterShareGroupOffsets of an unknown partition", answer.error_code, *self._possible())
            if not answer.error_code:
                error = answer.responses[0].partitions[0].error_code
                self.answered("an unknown partition", error, E.UNKNOWN_TOPIC_OR_PARTITION)

        topics = [kind(topic_name=name, partitions=[kind.Partition(partition_index=index, start_offset=1)])]
        self.request(wire, AlterShareGroupOffsetsRequest(group_id=self.script.group, topics=topics), 0, altered)

    def _delete(self, wire: Wire) -> None:
        kind = DeleteShareGroupOffsetsRequest.Topic
        operations = [self.began(self._register(index), NOTHING) for index in range(self.own_partitions)]

        def deleted(answer: Any) -> None:
            possible = [*self._possible(), E.GROUP_ID_NOT_FOUND]
            self.answered("DeleteShareGroupOffsets", answer.error_code, *possible)
            error = answer.error_code or answer.responses[0].error_code
            for operation in operations:
                self.ended(operation, error)

        topics = [kind(topic_name=self.own_topic)]
        self.request(wire, DeleteShareGroupOffsetsRequest(group_id=self.script.group, topics=topics), 0, deleted)

    def _describe(self, wire: Wire) -> None:
        kind, sent_at = DescribeShareGroupOffsetsRequest.Group, self.queue.now

        def described(answer: Any) -> None:
            (group,) = answer.groups
            self.answered("DescribeShareGroupOffsets", group.error_code, E.NONE, E.GROUP_ID_NOT_FOUND)
            if group.error_code in OF_COORDINATORS:
                return
            found = {each.partition_index: each for topic in group.topics for each in topic.partitions}
            for index in range(self.own_partitions):
                each = found.get(index)
                if each is None or not each.error_code:
                    self.was_read(self._register(index), NOTHING if each is None else each.start_offset, sent_at)

        topics = [kind.Topic(topic_name=self.own_topic, partitions=list(range(self.own_partitions)))]
        request = DescribeShareGroupOffsetsRequest(groups=[kind(group_id=self.script.group, topics=topics)])
        self.request(wire, request, 0, described)

    def _register(self, index: int) -> str:
        return f"start offset of {self.own_topic}-{index} in {self.script.group}"


class ShareStateOperator(CoordinatorOperator):
    """A client that sends the requests of group coordinators and partition leaders to a share coordinator.

    The register is the start offset in the state of a share partition. Each initialization has a higher state epoch,
    and start offsets increase in a state epoch.

    Attributes:
        state_epoch: highest state epoch that was sent.
        stored_epoch: state epoch that is certainly stored; 0 if it is unknown.
        leader_epoch: leader epoch that is certainly stored; 0 if it is unknown.
        start_offset: highest start offset that was sent.
    """

    own_topic = "stated"
    key_type = SHARE

    def begin(self) -> None:
        super().begin()
        if self.life == 1:
            self.state_epoch, self.start_offset, self._next_leader_epoch = 0, 0, 0
        self.stored_epoch = self.leader_epoch = 0

    def coordinator_key(self) -> str:
        topic_id = self.leaders.ids.get(self.own_topic)
        return "" if topic_id is None else f"{self.script.group}:{uuid_text(topic_id)}:0"

    def use_coordinator(self, wire: Wire) -> None:
        steps = [self._write, self._write, self._read_state, self._summarize, self._initialize, self._read_unknown]
        steps += [self._delete] if self.dice.chance(0.3) else []
        self.dice.pick(steps)(wire)

    def _send(self, wire: Wire, kind: Any, version: int, then: Any, /, **fields: Any) -> None:
        partition = kind.Topic.Partition(partition=0, **fields)
        topics = [kind.Topic(topic_id=self.leaders.ids[self.own_topic], partitions=[partition])]

        def received(answer: Any) -> None:
            then(answer.results[0].partitions[0])

        self.request(wire, kind(group_id=self.script.group, topics=topics), version, received)

    @property
    def _register(self) -> str:
        return f"start offset in the state of {self.script.group}"

    def _initialize(self, wire: Wire) -> None:
        if self.stored_epoch and self.dice.chance(0.3):
            old = self.stored_epoch - 1

            def refused(partition: Any) -> None:
                self.answered("an old state epoch", partition.error_code, E.FENCED_STATE_EPOCH)

            self._send(wire, InitializeShareGroupStateRequest, 0, refused, state_epoch=old, start_offset=0)
            return
        self.state_epoch += 1
        epoch, self.start_offset = self.state_epoch, self.start_offset + 1
        operation = self.began(self._register, self.start_offset)
        self.stored_epoch = self.leader_epoch = 0

        def initialized(partition: Any) -> None:
            self.answered("InitializeShareGroupState", partition.error_code, E.NONE)
            self.ended(operation, partition.error_code)
            self.stored_epoch = 0 if partition.error_code else epoch

        self._send(
            wire, InitializeShareGroupStateRequest, 0, initialized, state_epoch=epoch, start_offset=self.start_offset
        )

    def _write(self, wire: Wire) -> None:
        if not self.stored_epoch:
            self._initialize(wire)
            return
        kind = WriteShareGroupStateRequest.Topic.Partition.StateBatch
        self.start_offset += 1
        old_leader = self.leader_epoch > 1 and self.dice.chance(0.2)
        old_state = not old_leader and self.dice.chance(0.2)
        batches = [
            kind(first_offset=self.start_offset, last_offset=self.start_offset + 2, delivery_state=2, delivery_count=1)
        ]
        operation = self.began(self._register, self.start_offset)
        error = E.FENCED_LEADER_EPOCH if old_leader else E.FENCED_STATE_EPOCH if old_state else E.NONE

        def written(partition: Any) -> None:
            self.answered("WriteShareGroupState", partition.error_code, error)
            self.ended(operation, partition.error_code)

        self._send(
            wire,
            WriteShareGroupStateRequest,
            self.dice.whole(0, 1),
            written,
            state_epoch=self.stored_epoch - old_state,
            leader_epoch=self.leader_epoch - 1 if old_leader else self._next_leader_epoch,
            start_offset=self.start_offset,
            state_batches=batches,
        )

    def _read_state(self, wire: Wire) -> None:
        sent_at = self.queue.now
        if self.stored_epoch and self.leader_epoch > 1 and self.dice.chance(0.2):

            def refused(partition: Any) -> None:
                self.answered("a read of an old leader", partition.error_code, E.FENCED_LEADER_EPOCH)

            self._send(wire, ReadShareGroupStateRequest, 0, refused, leader_epoch=self.leader_epoch - 1)
            return
        self._next_leader_epoch += 1
        epoch, known = self._next_leader_epoch, self.stored_epoch

        def read(partition: Any) -> None:
            error = partition.error_code
            self.answered("ReadShareGroupState", error, E.NONE, *([] if known else [E.INVALID_REQUEST]))
            if not error:
                self.leader_epoch = epoch
                if known:
                    self.expect("the state epoch", partition.state_epoch, [known])
            if error in (E.NONE, E.INVALID_REQUEST):
                self.was_read(self._register, NOTHING if error else partition.start_offset, sent_at)

        self._send(wire, ReadShareGroupStateRequest, 0, read, leader_epoch=epoch)

    def _read_unknown(self, wire: Wire) -> None:
        kind = ReadShareGroupStateRequest
        lines = [kind.Topic.Partition(partition=self.dice.pick([-1, NO_SUCH_PARTITION]), leader_epoch=0)]
        topics = [kind.Topic(topic_id=self.leaders.ids[self.own_topic], partitions=lines)]

        def read(answer: Any) -> None:
            error = answer.results[0].partitions[0].error_code
            self.answered("a read of an unknown share partition", error, E.INVALID_REQUEST)

        self.request(wire, kind(group_id=self.script.group, topics=topics), 0, read)

    def _summarize(self, wire: Wire) -> None:
        sent_at, known = self.queue.now, self.stored_epoch

        def read(partition: Any) -> None:
            self.answered("ReadShareGroupStateSummary", partition.error_code, E.NONE)
            if not partition.error_code:
                self.was_read(self._register, partition.start_offset, sent_at)
                if known:
                    self.expect("the state epoch of a summary", partition.state_epoch, [known])

        version = self.dice.whole(0, 1)
        self._send(wire, ReadShareGroupStateSummaryRequest, version, read, leader_epoch=self.leader_epoch)

    def _delete(self, wire: Wire) -> None:
        operation = self.began(self._register, NOTHING)
        self.stored_epoch = self.leader_epoch = 0

        def deleted(partition: Any) -> None:
            self.answered("DeleteShareGroupState", partition.error_code, E.NONE)
            self.ended(operation, partition.error_code)

        self._send(wire, DeleteShareGroupStateRequest, 0, deleted)
