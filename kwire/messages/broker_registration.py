"""BrokerRegistration (key 62): a starting broker registers with the KRaft controller (KIP-631).

v1 adds a flag for migration from ZooKeeper (KIP-866); v2 adds log directories (KIP-858); v3 adds the broker epoch
before the last clean shutdown (KIP-966); v4 allows features with a minimum level of 0.
"""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int16, Int32, Int64, String, UInt16, Uuid, request, response, struct

BROKER_REGISTRATION = Api(62, versions="0-4", flexible="0+")


@request(BROKER_REGISTRATION)
class BrokerRegistrationRequest:
    @struct
    class Listener:
        name: str = String()
        host: str = String()
        port: int = UInt16()
        security_protocol: int = Int16()

    @struct
    class Feature:
        name: str = String()
        min_supported_version: int = Int16()
        max_supported_version: int = Int16()

    broker_id: int = Int32(entity="brokerId")
    cluster_id: str = String()
    incarnation_id: UUID = Uuid()
    listeners: list[Listener] = Array(Listener)
    features: list[Feature] = Array(Feature)
    rack: str | None = String(null=True)
    is_migrating_zk_broker: bool = Bool("1+")
    log_dirs: list[UUID] = Array(Uuid, "2+", ignorable=True)
    previous_broker_epoch: int = Int64("3+", default=-1, ignorable=True)


@response(BROKER_REGISTRATION)
class BrokerRegistrationResponse:
    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    broker_epoch: int = Int64(default=-1)
