"""The handler of AlterClientQuotas v0-1. Source: Kafka's ClientQuotaControlManager."""

from __future__ import annotations

from collections import Counter

from kwire import ErrorCode
from kwire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import in_slices, merge_array, split_array
from mockbroker.quotas.client_quotas import QuotaError, check_entity
from mockbroker.quotas.entity import DEFAULT, TYPES, Default, of_names

Entry = AlterClientQuotasRequest.Entry
Answered = AlterClientQuotasResponse.Entry


def _handle(broker: Broker, call: Call[AlterClientQuotasRequest], now: float) -> Effects:  # noqa: ARG001
    validate_only = call.request.validate_only
    entries = [_alter(broker, entry, validate_only=validate_only) for entry in call.request.entries]
    return [Reply(call.ticket, AlterClientQuotasResponse(entries=entries))]


def _alter(broker: Broker, entry: Entry, *, validate_only: bool) -> Answered:
    names: dict[str, str | Default] = {
        part.entity_type: DEFAULT if part.entity_name is None else part.entity_name for part in entry.entity
    }
    answered = Answered(
        error_message=None,
        entity=[
            Answered.Entity(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in sorted(entry.entity, key=_position)
        ],
    )
    try:
        if len(names) < len(entry.entity):
            ((repeated, _),) = Counter(part.entity_type for part in entry.entity).most_common(1)
            raise QuotaError(f"The entity type {repeated} occurs twice in an entity: name each type once")
        check_entity(names)
        changes = {op.key: None if op.remove else op.value for op in entry.ops}
        if len(changes) < len(entry.ops):
            ((repeated, _),) = Counter(op.key for op in entry.ops).most_common(1)
            raise QuotaError(f"The quota {repeated} occurs twice in the changes of an entity: name each quota once")
        broker.quotas.alter(of_names(names), changes, validate_only=validate_only)
    except QuotaError as error:
        answered.error_code = ErrorCode.INVALID_REQUEST
        answered.error_message = str(error)
    return answered


def _position(part: Entry.Entity) -> int:
    """Return the position at which the response lists a component of a quota entity (``part``), such as the user."""
    return TYPES.index(part.entity_type) if part.entity_type in TYPES else len(TYPES)


handle = in_slices(_handle, split_array("entries"), merge_array("entries"))
