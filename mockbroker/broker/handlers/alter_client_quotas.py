"""The handler of AlterClientQuotas v0-1. Source: Kafka's ClientQuotaControlManager."""

from __future__ import annotations

from collections.abc import Mapping

from kwire import ErrorCode
from kwire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.base.texts import shortened
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import chunks
from mockbroker.quotas.client_quotas import QuotaError, check_entity
from mockbroker.quotas.entity import DEFAULT, TYPES, of_names

Entry = AlterClientQuotasRequest.Entry
Answered = AlterClientQuotasResponse.Entry


def handle(broker: Broker, call: Call[AlterClientQuotasRequest], now: float) -> Effects:  # noqa: ARG001
    return begin(call.ticket, _alter_all(broker, call))


def _alter_all(broker: Broker, call: Call[AlterClientQuotasRequest]) -> Steps:
    """Alter the quotas of each entity, and respond with one entry for each entity.

    Of several entries for one entity, the first is applied, but the response contains an error, as in Kafka.

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response.

    Args:
        broker: the state of the cluster.
        call: the request, its client, and its ticket (the object that identifies the request).
    """
    answered: dict[frozenset[tuple[str, str | None]], Answered] = {}
    for number, part in enumerate(chunks(call.request.entries, broker.slice_size)):
        if number:
            yield []
        for entry in part:
            names = {each.entity_type: each.entity_name for each in entry.entity}
            entity = frozenset(names.items())
            if entity in answered:
                _refuse(answered[entity], _repeated(names))
            else:
                answered[entity] = _alter(broker, entry, names, validate_only=call.request.validate_only)
    return [Reply(call.ticket, AlterClientQuotasResponse(entries=list(answered.values())))]


def _alter(broker: Broker, entry: Entry, names: Mapping[str, str | None], *, validate_only: bool) -> Answered:
    """Alter the quotas of an entity, and return the entry of the response.

    Args:
        broker: The state of the cluster.
        entry: The entry of the request.
        names: Entity type -> name, of the entity. Of two names for one type, the request's last is used, as in Kafka.
        validate_only: True to check the changes without applying them.
    """
    answered = Answered(
        error_message=None,
        entity=[Answered.Entity(entity_type=kind, entity_name=names[kind]) for kind in sorted(names, key=_position)],
    )
    changes = {op.key: None if op.remove else op.value for op in entry.ops}
    if len(changes) < len(entry.ops):
        _refuse(answered, _repeated(names))  # Kafka's message is about the entity, not about the quota
        return answered
    parts = {kind: DEFAULT if name is None else name for kind, name in names.items()}
    try:
        check_entity(parts)
        broker.quotas.alter(of_names(parts), changes, validate_only=validate_only)
    except QuotaError as error:
        _refuse(answered, str(error))
    return answered


def _refuse(answered: Answered, text: str) -> None:
    answered.error_code, answered.error_message = ErrorCode.INVALID_REQUEST, text


def _repeated(names: Mapping[str, str | None]) -> str:
    """Return Kafka's message for an entity (``names``) that occurs twice in a request."""
    parts = (f"{kind}={'null' if names[kind] is None else names[kind]}" for kind in sorted(names, key=_position))
    return f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shortened(', '.join(parts))}}})"


def _position(entity_type: str) -> int:
    """Return the position at which the response lists the component of a quota entity with a type, such as the user."""
    return TYPES.index(entity_type) if entity_type in TYPES else len(TYPES)
