"""DescribeDelegationToken (key 41): request the delegation tokens of some owners, or all tokens that the client may see
(KIP-48).

Since v1, brokers send the response before they throttle the client (KIP-219); v2 is flexible; v3 adds the requester of
the token (KIP-373).
"""

from kwire.schema import Api, Array, Bytes, Int16, Int32, Int64, String, request, response, struct

DESCRIBE_DELEGATION_TOKEN = Api(41, versions="0-3", flexible="2+")


@request(DESCRIBE_DELEGATION_TOKEN)
class DescribeDelegationTokenRequest:
    @struct
    class Owner:
        principal_type: str = String()
        principal_name: str = String()

    owners: list[Owner] | None = Array(Owner, null=True)


@response(DESCRIBE_DELEGATION_TOKEN)
class DescribeDelegationTokenResponse:
    @struct
    class Token:
        @struct
        class Renewer:
            principal_type: str = String()
            principal_name: str = String()

        principal_type: str = String()
        principal_name: str = String()
        token_requester_principal_type: str = String("3+")
        token_requester_principal_name: str = String("3+")
        issue_timestamp: int = Int64()
        expiry_timestamp: int = Int64()
        max_timestamp: int = Int64()
        token_id: str = String()
        hmac: bytes = Bytes()
        renewers: list[Renewer] = Array(Renewer)

    error_code: int = Int16()
    tokens: list[Token] = Array(Token)
    throttle_time_ms: int = Int32()
