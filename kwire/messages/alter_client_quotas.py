"""AlterClientQuotas (key 49): set and remove quotas (KIP-546).

v1 is flexible.
"""

from kwire.schema import Api, Array, Bool, Float64, Int16, Int32, String, request, response, struct

ALTER_CLIENT_QUOTAS = Api(49, versions="0-1", flexible="1+")


@request(ALTER_CLIENT_QUOTAS)
class AlterClientQuotasRequest:
    @struct
    class Entry:
        @struct
        class Entity:
            entity_type: str = String()
            entity_name: str | None = String(null=True)

        @struct
        class Op:
            key: str = String()
            value: float = Float64()
            remove: bool = Bool()

        entity: list[Entity] = Array(Entity)
        ops: list[Op] = Array(Op)

    entries: list[Entry] = Array(Entry)
    validate_only: bool = Bool()


@response(ALTER_CLIENT_QUOTAS)
class AlterClientQuotasResponse:
    @struct
    class Entry:
        @struct
        class Entity:
            entity_type: str = String()
            entity_name: str | None = String(null=True)

        error_code: int = Int16()
        error_message: str | None = String(null=True)
        entity: list[Entity] = Array(Entity)

    throttle_time_ms: int = Int32()
    entries: list[Entry] = Array(Entry)
