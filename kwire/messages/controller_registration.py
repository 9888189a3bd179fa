"""ControllerRegistration (key 70): a KRaft controller registers with the active controller (KIP-919)."""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int16, Int32, String, UInt16, Uuid, request, response, struct

CONTROLLER_REGISTRATION = Api(70, versions="0", flexible="0+")


@request(CONTROLLER_REGISTRATION)
class ControllerRegistrationRequest:
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

    controller_id: int = Int32()
    incarnation_id: UUID = Uuid()
    zk_migration_ready: bool = Bool()
    listeners: list[Listener] = Array(Listener)
    features: list[Feature] = Array(Feature)


@response(CONTROLLER_REGISTRATION)
class ControllerRegistrationResponse:
    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True)
