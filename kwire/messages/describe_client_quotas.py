"""DescribeClientQuotas (key 48): request the quotas of users, client ids and addresses (KIP-546).

A filter matches an exact name (match type 0), the default quota (1), or any name (2). v1 is flexible.
"""

from kwire.schema import Api, Array, Bool, Float64, Int8, Int16, Int32, String, request, response, struct

DESCRIBE_CLIENT_QUOTAS = Api(48, versions="0-1", flexible="1+")


@request(DESCRIBE_CLIENT_QUOTAS)
class DescribeClientQuotasRequest:
    @struct
    class Component:
        entity_type: str = String()
        match_type: int = Int8()
        match: str | None = String(null=True)

    components: list[Component] = Array(Component)
    strict: bool = Bool()


@response(DESCRIBE_CLIENT_QUOTAS)
class DescribeClientQuotasResponse:
    @struct
    class Entry:
        @struct
        class Entity:
            entity_type: str = String()
            entity_name: str | None = String(null=True)

        @struct
        class Value:
            key: str = String()
            value: float = Float64()

        entity: list[Entity] = Array(Entity)
        values: list[Value] = Array(Value)

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True)
    entries: list[Entry] | None = Array(Entry, null=True)
