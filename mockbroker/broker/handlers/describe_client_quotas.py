"""The handler of DescribeClientQuotas v0-1. Source: Kafka's ClientQuotasImage."""

from __future__ import annotations

from collections.abc import Mapping

from kwire import ErrorCode
from kwire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.quotas.client_quotas import matching
from mockbroker.quotas.entity import DEFAULT, IP, TYPES, Default, Entity

EXACT, DEFAULT_NAME, ANY = range(3)  # match types
Entry = DescribeClientQuotasResponse.Entry


class _InvalidFilterError(ValueError):
    """The error for an invalid quota filter in a request.

    Args:
        message: Kafka's error message.
        code: Error code of the response.
    """

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(message)
        self.code = code


def handle(broker: Broker, call: Call[DescribeClientQuotasRequest], now: float) -> Effects:  # noqa: ARG001
    try:
        parts = _parts(call.request)
    except _InvalidFilterError as error:
        refused = DescribeClientQuotasResponse(error_code=error.code, error_message=str(error), entries=None)
        return [Reply(call.ticket, refused)]
    selected = matching(broker.quotas.quotas, parts, strict=call.request.strict)
    entries = [Entry(entity=_entity(entity), values=_values(limits)) for entity, limits in selected]
    return [Reply(call.ticket, DescribeClientQuotasResponse(error_message="", entries=entries))]


def _parts(request: DescribeClientQuotasRequest) -> dict[str, str | Default | None]:
    parts: dict[str, str | Default | None] = {}
    for component in request.components:
        kind, match = component.entity_type, component.match
        if kind == "":
            raise _InvalidFilterError("Invalid empty entity type.")
        if kind not in TYPES:
            raise _InvalidFilterError(f"Unsupported entity type {kind}", ErrorCode.UNSUPPORTED_VERSION)
        if kind in parts:
            raise _InvalidFilterError(f"Entity type {kind} cannot appear more than once in the filter.")
        if component.match_type == EXACT:
            if match is None:
                raise _InvalidFilterError("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            parts[kind] = match
        elif component.match_type == DEFAULT_NAME:
            if match is not None:
                raise _InvalidFilterError("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
            parts[kind] = DEFAULT
        elif component.match_type == ANY:
            if match is not None:
                raise _InvalidFilterError("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
            parts[kind] = None
        else:
            raise _InvalidFilterError(f"Unknown match type {component.match_type}")
    if IP in parts and len(parts) > 1:
        raise _InvalidFilterError(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
    return parts


def _entity(entity: Entity) -> list[Entry.Entity]:
    return [
        Entry.Entity(entity_type=kind, entity_name=None if isinstance(name, Default) else name)
        for kind, name in entity.names()
    ]


def _values(limits: Mapping[str, float]) -> list[Entry.Value]:
    return [Entry.Value(key=key, value=value) for key, value in limits.items()]
