"""ExpireDelegationToken (key 40): set the expiry time of a token, or expire it immediately (KIP-48).

Since v1, brokers send the response before they throttle the client (KIP-219); v2 is flexible.
"""

from kwire.schema import Api, Bytes, Int16, Int32, Int64, request, response

EXPIRE_DELEGATION_TOKEN = Api(40, versions="0-2", flexible="2+")


@request(EXPIRE_DELEGATION_TOKEN)
class ExpireDelegationTokenRequest:
    hmac: bytes = Bytes()
    expiry_time_period_ms: int = Int64()


@response(EXPIRE_DELEGATION_TOKEN)
class ExpireDelegationTokenResponse:
    error_code: int = Int16()
    expiry_timestamp_ms: int = Int64()
    throttle_time_ms: int = Int32()
