"""RenewDelegationToken (key 39): extend a token's expiry, within its maximum lifetime (KIP-48).

Since v1, brokers send the response before they throttle the client (KIP-219); v2 is flexible.
"""

from kwire.schema import Api, Bytes, Int16, Int32, Int64, request, response

RENEW_DELEGATION_TOKEN = Api(39, versions="0-2", flexible="2+")


@request(RENEW_DELEGATION_TOKEN)
class RenewDelegationTokenRequest:
    hmac: bytes = Bytes()
    renew_period_ms: int = Int64()


@response(RENEW_DELEGATION_TOKEN)
class RenewDelegationTokenResponse:
    error_code: int = Int16()
    expiry_timestamp_ms: int = Int64()
    throttle_time_ms: int = Int32()
