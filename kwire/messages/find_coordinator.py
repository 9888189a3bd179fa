"""FindCoordinator (key 10): look up the coordinator of a group, transactional id or share partition.

v1 adds the key type, the throttle time and the error message; v3 is flexible; v4 allows many keys in one request, and
the response has a result for each key (KIP-699); v5 adds the error TRANSACTION_ABORTABLE (KIP-890); v6 adds share
groups (KIP-932).
"""

from kwire.schema import Api, Array, Int8, Int16, Int32, String, request, response, struct

FIND_COORDINATOR = Api(10, versions="0-6", flexible="3+")


@request(FIND_COORDINATOR)
class FindCoordinatorRequest:
    key: str = String("0-3")
    key_type: int = Int8("1+")
    coordinator_keys: list[str] = Array(String, "4+")


@response(FIND_COORDINATOR)
class FindCoordinatorResponse:
    @struct
    class Coordinator:
        key: str = String()
        node_id: int = Int32(entity="brokerId")
        host: str = String()
        port: int = Int32()
        error_code: int = Int16()
        error_message: str | None = String(null=True, ignorable=True)

    throttle_time_ms: int = Int32("1+", ignorable=True)
    error_code: int = Int16("0-3")
    error_message: str | None = String("1-3", null=True, ignorable=True)
    node_id: int = Int32("0-3", entity="brokerId")
    host: str = String("0-3")
    port: int = Int32("0-3")
    coordinators: list[Coordinator] = Array(Coordinator, "4+")
