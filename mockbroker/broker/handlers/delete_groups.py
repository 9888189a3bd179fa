"""The handler of DeleteGroups v0-2, which deletes groups that have no members, and their committed offsets."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from mockbroker.base.effects import Call, Effects, Note, Reply
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import chunks, copy_with, in_slices, merge_array


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


def _split(broker: Broker, request: DeleteGroupsRequest) -> list[DeleteGroupsRequest]:
    """Return the slices of a large request, in which each group occurs once; [] if the request is small."""
    if len(request.groups_names) <= broker.slice_size:
        return []
    names = list(dict.fromkeys(request.groups_names))
    return [copy_with(request, groups_names=part) for part in chunks(names, broker.slice_size)]


handle = in_slices(_handle, _split, merge_array("results"))
