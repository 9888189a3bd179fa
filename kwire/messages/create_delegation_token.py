"""CreateDelegationToken (key 38): create a delegation token, with which a client can authenticate (KIP-48).

Since v1, brokers send the response before they throttle the client (KIP-219); v2 is flexible; v3 adds tokens for
another owner (KIP-373).
"""

from kwire.schema import Api, Array, Bytes, Int16, Int32, Int64, String, request, response, struct

CREATE_DELEGATION_TOKEN = Api(38, versions="0-3", flexible="2+")


@request(CREATE_DELEGATION_TOKEN)
class CreateDelegationTokenRequest:
    @struct
    class Renewer:
        principal_type: str = String()
        principal_name: str = String()

    owner_principal_type: str | None = String("3+", null=True)
    owner_principal_name: str | None = String("3+", null=True)
    renewers: list[Renewer] = Array(Renewer)
    max_lifetime_ms: int = Int64()


@response(CREATE_DELEGATION_TOKEN)
class CreateDelegationTokenResponse:
    error_code: int = Int16()
    principal_type: str = String()
    principal_name: str = String()
    token_requester_principal_type: str = String("3+")
    token_requester_principal_name: str = String("3+")
    issue_timestamp_ms: int = Int64()
    expiry_timestamp_ms: int = Int64()
    max_timestamp_ms: int = Int64()
    token_id: str = String()
    hmac: bytes = Bytes()
    throttle_time_ms: int = Int32()
