"""BrokerHeartbeat (key 63): a broker renews its registration, or requests to be unfenced or shut down (KIP-631).

v1 adds the log directories that failed (KIP-858).
"""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int16, Int32, Int64, Uuid, request, response

BROKER_HEARTBEAT = Api(63, versions="0-1", flexible="0+")


@request(BROKER_HEARTBEAT)
class BrokerHeartbeatRequest:
    broker_id: int = Int32(entity="brokerId")
    broker_epoch: int = Int64(default=-1)
    current_metadata_offset: int = Int64()
    want_fence: bool = Bool()
    want_shut_down: bool = Bool()
    offline_log_dirs: list[UUID] = Array(Uuid, "1+", tag=0)


@response(BROKER_HEARTBEAT)
class BrokerHeartbeatResponse:
    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    is_caught_up: bool = Bool()
    is_fenced: bool = Bool(default=True)
    should_shut_down: bool = Bool()
