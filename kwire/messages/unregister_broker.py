"""UnregisterBroker (key 64): remove the registration of a broker that is permanently down (KIP-631)."""

from kwire.schema import Api, Int16, Int32, String, request, response

UNREGISTER_BROKER = Api(64, versions="0", flexible="0+")


@request(UNREGISTER_BROKER)
class UnregisterBrokerRequest:
    broker_id: int = Int32(entity="brokerId")


@response(UNREGISTER_BROKER)
class UnregisterBrokerResponse:
    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True)
