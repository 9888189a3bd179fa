"""Bugs that tests plant in the broker; each violates an invariant.

``by``: the invariants that may notice the bug first. A bug is planted with a patch, and removed when the patch is
undone. It is run in the scheme swarm, which has no streams groups, or in the scheme streams.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import pytest

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from mockbroker.api import snapshots
from mockbroker.api.snapshots import GroupSnapshot
from mockbroker.base.effects import Call, Effects, Note, Reply, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers import (
    delete_groups,
    describe_groups,
    heartbeat,
    leave_group,
    list_groups,
    offset_commit,
    offset_fetch,
)
from mockbroker.broker.slices import in_slices, merge_topics, split_by_partition
from mockbroker.groups import expiry
from mockbroker.groups.changes import Changes
from mockbroker.groups.classic import join as classic_join
from mockbroker.groups.classic import membership, phases, replies, rules
from mockbroker.groups.classic import records as classic_records
from mockbroker.groups.classic import sync as classic_sync
from mockbroker.groups.classic import timers as classic_timers
from mockbroker.groups.classic.state import ClassicGroup, Member, State
from mockbroker.groups.consumer import commit_rules, reconcile
from mockbroker.groups.consumer import machine as consumer
from mockbroker.groups.consumer import records as consumer_records
from mockbroker.groups.consumer.state import (
    ConsumerGroup,
    ConsumerMember,
)
from mockbroker.groups.coordinated import CoordinatedGroup, GroupEffects
from mockbroker.groups.events import Commit, Join, Sync
from mockbroker.groups.group_type import Context
from mockbroker.groups.offsets import Committed, Offsets
from mockbroker.groups.partition_sets import PartitionSet
from mockbroker.groups.records import image, writer
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.groups.records.writer import GroupRecordWriter
from mockbroker.groups.streams import machine as streams
from mockbroker.groups.streams import reconcile as streams_reconcile
from mockbroker.groups.streams.state import (
    Owners,
    StreamsGroup,
)
from mockbroker.groups.streams.tasks import NOTHING as NO_TASKS
from mockbroker.lab.simulation.clients.client import Client
from mockbroker.net.pump import Pump
from mockbroker.storage.partition_files import PartitionFiles
from mockbroker.storage.work import Worker
from mockbroker.topics.model import Partition
from mockbroker.transactions import rules as transaction_rules
from mockbroker.transactions.registry import Transactions
from mockbroker.transactions.state import Identity, Transaction
from tests.mockbroker.lab.simulation.planted_admin import ADMIN_BUGS
from tests.mockbroker.lab.simulation.planted_bytes import BYTE_BUGS
from tests.mockbroker.lab.simulation.planted_migration import MIGRATION_BUGS
from tests.mockbroker.lab.simulation.planted_operators import OPERATOR_BUGS
from tests.mockbroker.lab.simulation.planted_records import RECORD_BUGS
from tests.mockbroker.lab.simulation.planted_shares import SHARE_BUGS
from tests.mockbroker.lab.simulation.planted_upkeep import UPKEEP_BUGS

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Bug:
    name: str
    by: tuple[str, ...]
    plant: Callable[[Patch], None]
    scheme: str = "swarm"


BUGS: list[Bug] = []


def bug(*by: str, scheme: str = "swarm") -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def listed(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        BUGS.append(Bug(plant.__name__, by, plant, scheme))
        return plant

    return listed


def handle_with(patch: Patch, module: ModuleType, handle: Callable[..., Effects]) -> None:
    """Replace the handler of an API."""
    from mockbroker.broker.handlers import HANDLERS

    patch.setattr(HANDLERS[ApiKey[module.__name__.rpartition(".")[2].upper()]], "handle", handle)


# --- generations, epochs and assignments ---------------------------------------------------------------------------


@bug("I2", "I12")
def a_rebalance_does_not_increase_the_generation(patch: Patch) -> None:
    real = phases.elect_leader

    def elect(group: ClassicGroup) -> None:
        real(group)
        group.generation -= 1

    patch.setattr(phases, "elect_leader", elect)


@bug("I2")
def a_rebalance_increases_the_generation_by_two(patch: Patch) -> None:
    real = phases.elect_leader

    def elect(group: ClassicGroup) -> None:
        real(group)
        group.generation += bool(group.members)

    patch.setattr(phases, "elect_leader", elect)


@bug("I2", "I12")
def an_epoch_decreases(patch: Patch) -> None:
    real = ConsumerGroup.bump_epoch

    def bump(group: ConsumerGroup, reason: str) -> Note:
        note = real(group, reason)
        if group.epoch % 3 == 0:
            group.epoch -= 2
        return note

    patch.setattr(ConsumerGroup, "bump_epoch", bump)


@bug("I2")
def an_epoch_increases_by_two(patch: Patch) -> None:
    real = ConsumerGroup.bump_epoch

    def bump(group: ConsumerGroup, reason: str) -> Note:
        group.epoch += 1
        return real(group, reason)

    patch.setattr(ConsumerGroup, "bump_epoch", bump)


@bug("I3")
def a_follower_gets_the_list_of_members(patch: Patch) -> None:
    real = replies.join_response

    def joined(group: ClassicGroup, ticket: Ticket, member: Member) -> Reply:
        reply = real(group, ticket, member)
        leader = group.members[group.leader]
        return Reply(ticket, replace(reply.response, members=real(group, ticket, leader).response.members))

    patch.setattr(replies, "join_response", joined)


@bug("I3", "I9")
def the_leader_gets_a_list_without_the_last_member(patch: Patch) -> None:
    real = replies.join_response

    def joined(group: ClassicGroup, ticket: Ticket, member: Member) -> Reply:
        reply = real(group, ticket, member)
        return Reply(ticket, replace(reply.response, members=reply.response.members[:-1] or reply.response.members))

    patch.setattr(replies, "join_response", joined)


@bug("I3")
def every_member_is_the_leader(patch: Patch) -> None:
    real = replies.join_response

    def joined(group: ClassicGroup, ticket: Ticket, member: Member) -> Reply:
        return Reply(ticket, replace(real(group, ticket, member).response, leader=member.member_id))

    patch.setattr(replies, "join_response", joined)


@bug("I1", "I3")
def a_sync_returns_the_assignment_of_another_member(patch: Patch) -> None:
    real = replies.sync_response

    def synced(group: ClassicGroup, ticket: Ticket, member: Member) -> Reply:
        return real(group, ticket, next(iter(group.members.values())))

    patch.setattr(replies, "sync_response", synced)


@bug("I1")
def partitions_that_other_members_own_are_assigned(patch: Patch) -> None:
    real = consumer.reconciled_member
    patch.setattr(consumer, "reconciled_member", lambda member, goal: real(member, replace(goal, partition_epochs={})))


@bug("I1")
def partitions_are_assigned_before_they_are_revoked(patch: Patch) -> None:
    patch.setattr(reconcile.ReconciliationInput, "owns_any", lambda goal, partitions: False)


@bug("I9", "I1", "I2")
def the_target_is_not_recomputed(patch: Patch) -> None:
    real = consumer.compute_target

    def assign(group: ConsumerGroup, *given: Any, **how: Any) -> Note:
        target = dict(group.target)
        note = real(group, *given, **how)
        if target:
            group.target = target
        return note

    patch.setattr(consumer, "compute_target", assign)


# --- members -------------------------------------------------------------------------------------------------------


@bug("I10")
def a_heartbeat_does_not_renew_the_session(patch: Patch) -> None:
    real = membership.renew_session

    def renew(group: ClassicGroup, member: Member, now: float) -> None:
        if ("session", member.member_id) not in group.timers:
            real(group, member, now)

    patch.setattr(membership, "renew_session", renew)


@bug("I10", "I9")
def sessions_of_classic_members_do_not_expire(patch: Patch) -> None:
    patch.setattr(classic_timers, "_session_expired", lambda group, member, now: [])


@bug("I10")
def sessions_end_early(patch: Patch) -> None:
    real = membership.renew_session

    def renew(group: ClassicGroup, member: Member, now: float) -> None:
        real(group, member, now - member.session_timeout / 2)

    patch.setattr(membership, "renew_session", renew)


@bug("I10", "I9", "I13")
def sessions_of_consumer_members_do_not_expire(patch: Patch) -> None:
    real = consumer.fence

    def fence(group: ConsumerGroup, members: Iterable[ConsumerMember], event: EventKind, *rest: Any) -> GroupEffects:
        return real(group, [] if event == EventKind.EXPIRE else members, event, *rest)

    def tick(group: ConsumerGroup, world: Context, now: float) -> GroupEffects:
        group.timers.pop_due(now)
        return []

    patch.setattr(consumer, "fence", fence)
    patch.setattr(consumer, "tick", tick)


@bug("I10", "I9")
def an_unused_member_id_is_kept(patch: Patch) -> None:
    real = classic_join._require_member_id

    def give(group: ClassicGroup, event: Join, now: float) -> Effects:
        effects = real(group, event, now)
        group.timers.forget(("pending", event.new_member_id))
        return effects

    patch.setattr(classic_join, "_require_member_id", give)


@bug("I13", "I14", "I9", "I3", "I12")
def a_static_member_joins_twice(patch: Patch) -> None:
    real = classic_join._join_as_new_member

    def join(group: ClassicGroup, event: Join, now: float) -> Effects:
        if event.instance_id in group.static_members:
            return classic_join._add_member(group, event, event.new_member_id, now)
        return real(group, event, now)

    patch.setattr(classic_join, "_join_as_new_member", join)


@bug("I12", "raised", "I9")
def the_last_member_leaves_a_stable_group(patch: Patch) -> None:
    real = phases.rebalance

    def rebalance(group: ClassicGroup, reason: str, now: float) -> Effects:
        return real(group, reason, now) if group.members else []

    patch.setattr(phases, "rebalance", rebalance)


@bug("I12")
def a_group_is_empty_with_members(patch: Patch) -> None:
    real = ClassicGroup.transition_to

    def move_to(group: ClassicGroup, state: State, now: float) -> None:
        real(group, state, now)
        if state is State.STABLE and len(group.members) > 1:
            group.state = State.EMPTY

    patch.setattr(ClassicGroup, "transition_to", move_to)


@bug("I12")
def a_group_is_stable_without_a_sync(patch: Patch) -> None:
    real = ClassicGroup.transition_to

    def move_to(group: ClassicGroup, state: State, now: float) -> None:
        real(group, state, now)
        if state is State.COMPLETING:
            group.state = State.STABLE

    patch.setattr(ClassicGroup, "transition_to", move_to)


@bug("I13", "raised", "I10")
def deadlines_are_not_forgotten_with_their_members(patch: Patch) -> None:
    real = membership.remove

    def remove(group: ClassicGroup, member: Member, event: EventKind, reason: str) -> Effects:
        at = group.timers._at.get(("session", member.member_id))
        effects = real(group, member, event, reason)
        group.timers.set(("session", member.member_id), at or 0.0)
        return effects

    patch.setattr(membership, "remove", remove)


@bug("I13")
def pending_joins_are_miscounted(patch: Patch) -> None:
    real = ClassicGroup.set_pending_join

    def park(group: ClassicGroup, member: Member, ticket: Ticket) -> None:
        real(group, member, ticket)
        group.pending_join_count += len(group.members) > 2

    patch.setattr(ClassicGroup, "set_pending_join", park)


# --- answers -------------------------------------------------------------------------------------------------------


@bug("I7", "I9")
def a_pending_join_is_forgotten(patch: Patch) -> None:
    real = ClassicGroup.pop_pending_join

    def take(group: ClassicGroup, member: Member) -> Ticket | None:
        ticket = real(group, member)
        return ticket if member.member_id == group.leader else None

    patch.setattr(ClassicGroup, "pop_pending_join", take)


@bug("I7")
def a_join_is_answered_twice(patch: Patch) -> None:
    real = phases.complete_join_phase

    def complete(group: ClassicGroup, now: float) -> Effects:
        effects = real(group, now)
        return effects + [each for each in effects if isinstance(each, Reply)][:1]

    patch.setattr(phases, "complete_join_phase", complete)


@bug("I7", "I9")
def a_follower_that_syncs_early_is_not_answered(patch: Patch) -> None:
    real = classic_sync.propagate_assignment

    def assign(group: ClassicGroup, event: Sync, now: float) -> Effects:
        return [each for each in real(group, event, now) if not isinstance(each, Reply) or each.ticket == event.ticket]

    patch.setattr(classic_sync, "propagate_assignment", assign)


@bug("I8", "I7")
def a_heartbeat_is_answered_in_another_turn(patch: Patch) -> None:
    real = heartbeat.handle

    def handle(broker: Broker, call: Call[HeartbeatRequest], now: float) -> Effects:
        effects = real(broker, call, now)
        ticket = replace(call.ticket, correlation_id=call.ticket.correlation_id - 1)
        return [Reply(ticket, each.response) if isinstance(each, Reply) else each for each in effects]

    handle_with(patch, heartbeat, handle)


@bug("I8")
def a_heartbeat_is_answered_as_a_join(patch: Patch) -> None:
    def handle(broker: Broker, call: Call[HeartbeatRequest], now: float) -> Effects:
        return [Reply(call.ticket, JoinGroupResponse(error_code=E.REBALANCE_IN_PROGRESS))]

    handle_with(patch, heartbeat, handle)


@bug("I7", "I9")
def pending_requests_of_a_moved_group_get_no_response(patch: Patch) -> None:
    real = phases.fail_pending_requests
    patch.setattr(
        phases, "fail_pending_requests", lambda group, error: [] if error == E.NOT_COORDINATOR else real(group, error)
    )


# --- offsets -------------------------------------------------------------------------------------------------------


@bug("I6")
def a_commit_of_an_old_generation_is_accepted(patch: Patch) -> None:
    real = rules.commit_error

    def error(group: ClassicGroup, event: Commit) -> E:
        result = real(group, event)
        return E.NONE if result == E.ILLEGAL_GENERATION else result

    patch.setattr(rules, "commit_error", error)


@bug("I6")
def a_commit_of_a_non_member_is_accepted(patch: Patch) -> None:
    real = rules.commit_error

    def error(group: ClassicGroup, event: Commit) -> E:
        result = real(group, event)
        return E.NONE if result == E.UNKNOWN_MEMBER_ID else result

    patch.setattr(rules, "commit_error", error)


@bug("I6")
def a_commit_of_an_old_epoch_is_accepted(patch: Patch) -> None:
    patch.setattr(commit_rules, "_epoch_error", lambda member, epoch: E.NONE)


@bug("I6")
def only_the_first_slice_of_a_commit_is_checked(patch: Patch) -> None:
    real, checked = offset_commit._admit, dict[Ticket, tuple[CoordinatedGroup | None, E]]()

    def admit(broker: Broker, call: Call[OffsetCommitRequest], *given: Any) -> tuple[CoordinatedGroup | None, E]:
        if call.ticket not in checked:
            checked[call.ticket] = real(broker, call, *given)
        return checked[call.ticket]

    patch.setattr(offset_commit, "_admit", admit)


@bug("I4")
def the_answer_to_a_commit_is_that_of_its_last_slice(patch: Patch) -> None:
    real = merge_topics

    def add(response: OffsetCommitResponse, more: OffsetCommitResponse) -> None:
        response.topics.clear()
        real(response, more)

    handle = in_slices(offset_commit.handle, split_by_partition, add)
    handle_with(patch, offset_commit, handle)


@bug("I4")
def an_offset_fetch_reads_what_is_committed_meanwhile(patch: Patch) -> None:
    patch.setattr(Offsets, "copy", lambda offsets: offsets)


@bug("I4", "I5", "I6")
def a_killed_broker_completes_a_request(patch: Patch) -> None:
    patch.setattr(Pump, "stop", lambda pump, node: None)


@bug("I6")
def a_member_that_has_left_may_commit(patch: Patch) -> None:
    def error(group: ClassicGroup, event: Commit) -> E:
        if not group.empty and event.generation < 0:
            return E.UNKNOWN_MEMBER_ID
        return E.NONE

    patch.setattr(rules, "commit_error", error)


@bug("I6", "I4", "I5")
def a_broker_that_is_not_the_coordinator_responds(patch: Patch) -> None:
    patch.setattr(Broker, "coordinator_error", lambda broker, group_id, node: E.NONE)


@bug("I6")
def requests_are_handled_before_groups_are_loaded(patch: Patch) -> None:
    real = Broker.coordinator_error

    def error(broker: Broker, group_id: str, node: int) -> E:
        result = real(broker, group_id, node)
        return E.NONE if result == E.COORDINATOR_LOAD_IN_PROGRESS else result

    patch.setattr(Broker, "coordinator_error", error)


@bug("I5")
def every_seventh_offset_is_lost(patch: Patch) -> None:
    real = Offsets.store

    def store(offsets: Offsets, topic: str, partition: int, committed: Committed) -> None:
        if committed.offset % 7:
            real(offsets, topic, partition, committed)

    patch.setattr(Offsets, "store", store)


@bug("I5")
def offsets_are_stored_for_the_next_partition(patch: Patch) -> None:
    real = Offsets.store

    def store(offsets: Offsets, topic: str, partition: int, committed: Committed) -> None:
        real(offsets, topic, partition ^ (partition == 3), committed)

    patch.setattr(Offsets, "store", store)


@bug("I5")
def a_commit_of_a_lower_offset_is_ignored(patch: Patch) -> None:
    real = Offsets.store

    def store(offsets: Offsets, topic: str, partition: int, committed: Committed) -> None:
        there = offsets.committed.get((topic, partition))
        if there is None or committed.offset >= there.offset:
            real(offsets, topic, partition, committed)

    patch.setattr(Offsets, "store", store)


@bug("I5")
def a_rebalance_resets_offsets(patch: Patch) -> None:
    real = phases.prepare_rebalance

    def prepare(group: ClassicGroup, reason: str, now: float) -> Effects:
        for place in list(group.offsets.committed)[:1]:
            group.offsets.store(*place, Committed(offset=0))
        return real(group, reason, now)

    patch.setattr(phases, "prepare_rebalance", prepare)


@bug("I5")
def aborted_offsets_are_kept(patch: Patch) -> None:
    real = Offsets.end_transaction
    patch.setattr(
        Offsets,
        "end_transaction",
        lambda offsets, producer_id, *, committed: real(offsets, producer_id, committed=True),
    )


@bug("I5")
def offsets_of_transactions_are_forgotten(patch: Patch) -> None:
    real = Offsets.end_transaction
    patch.setattr(
        Offsets,
        "end_transaction",
        lambda offsets, producer_id, *, committed: real(offsets, producer_id, committed=False),
    )


@bug("I5")
def a_transaction_overwrites_what_was_committed_later(patch: Patch) -> None:
    def finish(offsets: Offsets, producer_id: int, *, committed: bool) -> dict[tuple[str, int], int]:
        results = {}
        for place, (_, held) in offsets.pending_transactional.pop(producer_id, {}).items():
            if committed:
                offsets.committed[place] = held
                results[place] = held.offset
        return results

    patch.setattr(Offsets, "end_transaction", finish)


@bug("I4")
def pending_offsets_are_returned(patch: Patch) -> None:
    real = offset_fetch._VisibleOffsets.get

    def get(seen: offset_fetch._VisibleOffsets, topic: str, partition: int) -> tuple[Committed, E]:
        for held in seen.offsets.pending_transactional.values():
            if (topic, partition) in held:
                return held[topic, partition][1], E.NONE
        return real(seen, topic, partition)

    patch.setattr(offset_fetch._VisibleOffsets, "get", get)


@bug("I5")
def offsets_expire_at_once(patch: Patch) -> None:
    patch.setattr(expiry, "_is_expired", lambda since, committed, now, retention: since is not None)


@bug("I5")
def a_group_with_members_can_be_deleted(patch: Patch) -> None:
    real = delete_groups._error

    def error(broker: Broker, group_id: str, node: int) -> E:
        result = real(broker, group_id, node)
        return E.NONE if result == E.NON_EMPTY_GROUP else result

    patch.setattr(delete_groups, "_error", error)


@bug("I15", "I5")
def a_commit_touches_another_group(patch: Patch) -> None:
    real = offset_commit._admit

    def admit(broker: Broker, call: Call[OffsetCommitRequest], *given: Any) -> tuple[CoordinatedGroup | None, E]:
        for other in broker.groups.values():
            if other.group_id != call.request.group_id and other.offsets.committed:
                place = next(iter(other.offsets.committed))
                other.offsets.store(*place, other.offsets.committed[place])
        return real(broker, call, *given)

    patch.setattr(offset_commit, "_admit", admit)


@bug("I15")
def leaving_ends_the_sessions_of_others(patch: Patch) -> None:
    real = leave_group.handle

    def handle(broker: Broker, call: Call[LeaveGroupRequest], now: float) -> Effects:
        for other in broker.groups.values():
            if other.group_id != call.request.group_id and isinstance(other, ClassicGroup):
                for member_id in other.members:
                    other.timers.forget(("session", member_id))
        return real(broker, call, now)

    handle_with(patch, leave_group, handle)


# --- records that are written and loaded again ---------------------------------------------------------------------


@bug("I4", "I5", "I11", "I2")
def tombstones_are_not_written(patch: Patch) -> None:
    for module in (writer, consumer_records):
        patch.setattr(module, "tombstones", lambda keys: [])


@bug("I4", "I5", "I11", "I2")
def deleted_groups_are_loaded_again(patch: Patch) -> None:
    real = GroupRecordWriter.write

    def write(kept: GroupRecordWriter, group_id: str, group: CoordinatedGroup | None, now: float) -> Partition | None:
        return None if group is None else real(kept, group_id, group, now)

    patch.setattr(GroupRecordWriter, "write", write)


@bug("I2", "I11")
def a_sync_is_not_written(patch: Patch) -> None:
    real = classic_records.changed_records

    def changed(group: ClassicGroup, wall: WallClock) -> Iterator[image.Change]:
        return iter(()) if group.state is State.STABLE else real(group, wall)

    patch.setattr(classic_records, "changed_records", changed)


@bug("I2", "I11")
def a_change_of_a_member_is_not_recorded(patch: Patch) -> None:
    real = Changes.add

    def add(changes: Changes, field: str, key: object = None) -> None:
        if field != "members":
            real(changes, field, key)

    patch.setattr(Changes, "add", add)


@bug("I2", "I11")
def a_durable_field_is_not_written(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "TRANSIENT", ConsumerGroup.TRANSIENT | {"assignment_epoch"})


@bug("I4", "I5", "I11")
def commits_are_not_written(patch: Patch) -> None:
    real = GroupRecordWriter._offset_changes

    def offsets(
        kept: GroupRecordWriter, group_id: str, before: writer._WrittenGroup, committed: Offsets
    ) -> Iterator[image.Change]:
        results = list(real(kept, group_id, before, committed))
        return iter(results[:-1])

    patch.setattr(GroupRecordWriter, "_offset_changes", offsets)


@bug("I11", "I4")
def offsets_of_open_transactions_are_not_written(patch: Patch) -> None:
    patch.setattr(GroupRecordWriter, "_transactional_changes", lambda kept, group_id, offsets: iter(()))


@bug("I2", "I11")
def a_new_coordinator_loads_an_older_generation(patch: Patch) -> None:
    real = classic_records.group_from_record

    def rebuilt(*given: Any, **how: Any) -> ClassicGroup:
        group = real(*given, **how)
        group.generation -= 1
        return group

    patch.setattr(classic_records, "group_from_record", rebuilt)


@bug("I11", "I14", "I9")
def a_member_is_lost_by_the_next_coordinator(patch: Patch) -> None:
    real = classic_records.group_from_record

    def rebuilt(*given: Any, **how: Any) -> ClassicGroup:
        group = real(*given, **how)
        if len(group.members) > 1:
            member = list(group.members.values())[-1]
            group.timers.forget(("session", member.member_id))
            group.remove_member(member)
        return group

    patch.setattr(classic_records, "group_from_record", rebuilt)


@bug("I11", "I1")
def the_next_coordinator_loads_no_assignments(patch: Patch) -> None:
    patch.setattr(consumer_records, "_partition_set", lambda lines: frozenset())


@bug("I11", "I2")
def targets_are_not_written(patch: Patch) -> None:
    real = consumer_records.target_record

    def target(group: ConsumerGroup, member_id: str) -> image.Record:
        key, value, version = real(group, member_id)
        return key, replace(value, topic_partitions=[]), version

    patch.setattr(consumer_records, "target_record", target)


@bug("I4", "I2", "raised")
def acknowledged_changes_are_not_on_the_disk(patch: Patch) -> None:
    patch.setattr(Worker, "perform", lambda worker, work: None)


@bug("I4", "I2")
def files_are_not_synced(patch: Patch) -> None:
    patch.setattr(PartitionFiles, "sync", lambda files: None)


# --- responses and reports ------------------------------------------------------------------------------------------


@bug("I14")
def snapshots_leave_out_a_member(patch: Patch) -> None:
    real = snapshots._of

    def of(group: CoordinatedGroup, broker: Broker) -> GroupSnapshot:
        result = real(group, broker)
        return replace(result, members=result.members[1:])

    patch.setattr(snapshots, "_of", of)


@bug("I14")
def a_description_leaves_out_a_member(patch: Patch) -> None:
    real = describe_groups._describe

    def describe(broker: Broker, call: Call[DescribeGroupsRequest], group_id: str) -> describe_groups.Described:
        result = real(broker, call, group_id)
        result.members = result.members[:-1]
        return result

    patch.setattr(describe_groups, "_describe", describe)


@bug("I14")
def empty_groups_are_not_listed(patch: Patch) -> None:
    real = list_groups.handle

    def handle(broker: Broker, call: Call[ListGroupsRequest], now: float) -> Effects:
        (reply,) = real(broker, call, now)
        reply.response.groups = [group for group in reply.response.groups if group.group_state != "Empty"]
        return [reply]

    handle_with(patch, list_groups, handle)


@bug("I14")
def the_journal_omits_the_member_that_left(patch: Patch) -> None:
    real = membership.member_note

    def note(group: ClassicGroup, event: EventKind, member: Member, reason: str = "") -> Note:
        return real(group, EventKind.SYNC if event == EventKind.LEAVE else event, member, reason)

    patch.setattr(membership, "member_note", note)


@bug("I16")
def random_numbers_do_not_depend_on_the_seed(patch: Patch) -> None:
    patch.setattr(Broker, "new_member_id", lambda broker, client_id: f"{client_id}-{uuid.uuid4()}")


@bug("I16")
def times_depend_on_memory_addresses(patch: Patch) -> None:
    real = Client.delay
    patch.setattr(
        Client, "delay", lambda client: real(client) + id(object()) % 4096 * 1e-9 + uuid.uuid4().int % 9 * 1e-6
    )


# --- leaders, deadlines and epochs over a restart or a failover -----------------------------------------------------


@bug("I17")
def leadership_moves_when_a_static_leader_restarts(patch: Patch) -> None:
    """In PreparingRebalance, another member becomes the leader when the static leader is replaced under its instance
    id."""
    real = ClassicGroup.replace_static_member

    def rename(group: ClassicGroup, member: Member, member_id: str) -> None:
        led = group.leader == member.member_id
        real(group, member, member_id)
        if led and group.state is State.PREPARING:
            group.leader = next((each for each in group.members if each != member_id), member_id)

    patch.setattr(ClassicGroup, "replace_static_member", rename)


@bug("I17")
def every_generation_elects_a_leader(patch: Patch) -> None:
    real = phases.elect_leader

    def elect(group: ClassicGroup) -> None:
        real(group)
        if group.members:
            group.leader = max(each.member_id for each in group.members.values() if each.pending_join is not None)

    patch.setattr(phases, "elect_leader", elect)


@bug("I11", "I17", "I3")
def the_next_coordinator_elects_a_leader(patch: Patch) -> None:
    real = classic_records.group_from_record

    def rebuilt(*given: Any, **how: Any) -> ClassicGroup:
        group = real(*given, **how)
        group.leader = max(group.members, default="")
        return group

    patch.setattr(classic_records, "group_from_record", rebuilt)


def without_waits_of(kind: str) -> Callable[[Patch], None]:
    """Plant that the next coordinator forgets the deadlines of one kind of consumer group."""

    def plant(patch: Patch) -> None:
        real = consumer_records._build_group

        def consumer_group(*given: Any) -> ConsumerGroup:
            group = real(*given)
            for member_id in group.members:
                group.timers.forget((kind, member_id))
            return group

        patch.setattr(consumer_records, "_build_group", consumer_group)

    return plant


@bug("I18")
def the_next_coordinator_waits_for_ever_for_partitions(patch: Patch) -> None:
    without_waits_of("rebalance")(patch)


@bug("I10", "I9", "I13")
def the_next_coordinator_knows_no_sessions(patch: Patch) -> None:
    without_waits_of("session")(patch)


@bug("I18", "raised")
def a_member_that_has_revoked_its_partitions_is_fenced(patch: Patch) -> None:
    real = consumer.reconcile

    def reconcile(group: ConsumerGroup, member_id: str, *given: Any, **how: Any) -> tuple[ConsumerMember, Effects]:
        at = group.timers._at.get(("rebalance", member_id))
        result = real(group, member_id, *given, **how)
        if at is not None:
            group.timers.set(("rebalance", member_id), at)
        return result

    patch.setattr(consumer, "reconcile", reconcile)


@bug("I18")
def every_heartbeat_begins_the_rebalance_timeout_again(patch: Patch) -> None:
    real = consumer.reconcile

    def reconcile(
        group: ConsumerGroup, member_id: str, owned: PartitionSet | None, world: Context, now: float, **how: Any
    ) -> tuple[ConsumerMember, Effects]:
        result = real(group, member_id, owned, world, now, **how)
        if ("rebalance", member_id) in group.timers:
            group.timers.set(("rebalance", member_id), now + group.members[member_id].rebalance_timeout)
        return result

    patch.setattr(consumer, "reconcile", reconcile)


@bug("I10", "I9")
def the_next_coordinator_knows_no_sessions_of_classic_members(patch: Patch) -> None:
    real = classic_records.group_from_record

    def rebuilt(*given: Any, **how: Any) -> ClassicGroup:
        group = real(*given, **how)
        for member_id in group.members:
            group.timers.forget(("session", member_id))
        return group

    patch.setattr(classic_records, "group_from_record", rebuilt)


@bug("I19")
def the_previous_producer_epoch_is_accepted(patch: Patch) -> None:
    real = transaction_rules.identity_error

    def error(txn: Transaction | None, asked: Identity) -> E:
        if txn is not None and asked == (txn.producer_id, txn.epoch - 1):
            return E.NONE
        return real(txn, asked)

    patch.setattr(transaction_rules, "identity_error", error)


@bug("I19")
def a_producer_that_is_fenced_may_hold_offsets(patch: Patch) -> None:
    patch.setattr(Transactions, "write_error", lambda *given, **how: E.NONE)


# --- streams groups -------------------------------------------------------------------------------------------------


def reconcile_tasks_with(patch: Patch, **changes: Callable[[], Any]) -> None:
    """Plant that the next assignment of a member is computed from other data."""
    real = streams_reconcile._next_assignment
    patch.setattr(
        streams_reconcile,
        "_next_assignment",
        lambda member, epoch, inputs: real(
            member, epoch, replace(inputs, **{name: value() for name, value in changes.items()})
        ),
    )


@bug("I20", scheme="streams")
def tasks_that_others_own_are_assigned(patch: Patch) -> None:
    reconcile_tasks_with(patch, owners=Owners)


@bug("I20", scheme="streams")
def a_task_is_free_before_its_owner_closed_it(patch: Patch) -> None:
    reconcile_tasks_with(patch, owned_tasks=lambda: NO_TASKS)


@bug("I20", scheme="streams")
def a_process_runs_a_task_twice(patch: Patch) -> None:
    patch.setattr(Owners, "replicates", lambda *_: False)


@bug("I13", scheme="streams")
def the_tasks_of_a_removed_member_stay_owned(patch: Patch) -> None:
    patch.setattr(Owners, "remove", lambda *_: None)


@bug("I21", scheme="streams")
def the_target_misses_a_task(patch: Patch) -> None:
    real = streams.compute_target

    def compute(group: StreamsGroup, *given: Any, **how: Any) -> Any:
        result = real(group, *given, **how)
        first = next(iter(group.target))
        tasks = group.target[first]
        group.target[first] = tasks._replace(active=frozenset(sorted(tasks.active)[1:]))
        return result

    patch.setattr(streams, "compute_target", compute)


@bug("I21", scheme="streams")
def the_target_has_no_standby_tasks(patch: Patch) -> None:
    real = streams.compute_target

    def compute(group: StreamsGroup, *given: Any, **how: Any) -> Any:
        result = real(group, *given, **how)
        group.target = {name: tasks._replace(standby=frozenset()) for name, tasks in group.target.items()}
        return result

    patch.setattr(streams, "compute_target", compute)


@bug("I2", scheme="streams")
def the_epoch_of_an_empty_streams_group_starts_again(patch: Patch) -> None:
    real = StreamsGroup.remove_member

    def remove(group: StreamsGroup, member: Any) -> None:
        real(group, member)
        if group.empty:
            group.epoch = 0

    patch.setattr(StreamsGroup, "remove_member", remove)


@bug("I10", "I9", "I13", scheme="streams")
def sessions_of_streams_members_do_not_start(patch: Patch) -> None:
    patch.setattr(streams, "session_timer", lambda member_id: ("other", member_id))


BUGS += [Bug(plant.__name__, by, plant, "admin") for by, plant in ADMIN_BUGS]
BUGS += [Bug(plant.__name__, by, plant, "bytes") for by, plant in BYTE_BUGS]
BUGS += [Bug(plant.__name__, by, plant, "migration") for by, plant in MIGRATION_BUGS]
BUGS += [Bug(plant.__name__, by, plant, "shares") for by, plant in SHARE_BUGS]
BUGS += [Bug(plant.__name__, by, plant, "data") for by, plant in RECORD_BUGS]
BUGS += [Bug(plant.__name__, by, plant, "upkeep") for by, plant in UPKEEP_BUGS]
BUGS += [Bug(plant.__name__, by, plant, scheme) for by, plant, scheme in OPERATOR_BUGS]
