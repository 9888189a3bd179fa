"""The handler of DeleteGroups v0-2, which deletes groups that have no members, and their committed offsets."""

from __future__ import annotations

from collections.abc import Iterator

from kwire import ErrorCode
from kwire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from mockbroker.base.effects import Call, Effects, Note, Reply, begin
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import copy_with, handle_slices, merge_array, weighted_chunks


def _handle(broker: Broker, call: Call[DeleteGroupsRequest], now: float) -> Effects:
    effects: Effects = []
    results: list[DeleteGroupsResponse.Result] = []
    for group_id in dict.fromkeys(call.request.groups_names):
        error = _error(broker, group_id, call.client.node) or broker.groups.delete_on_request(group_id, now)
        if not error:
            effects.append(Note(event=EventKind.DELETE, group=group_id, client_id=call.client.client_id))
        results.append(DeleteGroupsResponse.Result(group_id=group_id, error_code=error))
    return [*effects, Reply(call.ticket, DeleteGroupsResponse(results=results))]


def _error(broker: Broker, group_id: str, node: int) -> ErrorCode:
    if error := broker.coordinator_error(group_id, node):
        return error
    group = broker.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.empty else ErrorCode.NON_EMPTY_GROUP


def _split(broker: Broker, request: DeleteGroupsRequest) -> Iterator[DeleteGroupsRequest]:
    """Yield the slices of a request, in which each group occurs once.

    A slice has at most ``Broker.slice_size`` groups, and ends when they have as many committed offsets.
    """

    def weight(group_id: str) -> int:
        group = broker.groups.get(group_id)
        return 1 if group is None else max(len(group.offsets.committed), 1)

    for part in weighted_chunks(dict.fromkeys(request.groups_names), weight, broker.slice_size):
        yield copy_with(request, groups_names=part)


def handle(broker: Broker, call: Call[DeleteGroupsRequest], now: float) -> Effects:
    slices = handle_slices(_handle, merge_array("results"), broker, call, _split(broker, call.request), now)
    return begin(call.ticket, slices)
