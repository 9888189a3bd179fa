"""DescribeUserScramCredentials (key 50): list the SCRAM mechanisms of users, without the secrets (KIP-554).

A null or empty list of users means all users.
"""

from kwire.schema import Api, Array, Int8, Int16, Int32, String, request, response, struct

DESCRIBE_USER_SCRAM_CREDENTIALS = Api(50, versions="0", flexible="0+")


@request(DESCRIBE_USER_SCRAM_CREDENTIALS)
class DescribeUserScramCredentialsRequest:
    @struct
    class User:
        name: str = String()

    users: list[User] | None = Array(User, null=True)


@response(DESCRIBE_USER_SCRAM_CREDENTIALS)
class DescribeUserScramCredentialsResponse:
    @struct
    class Result:
        @struct
        class Credential:
            mechanism: int = Int8()
            iterations: int = Int32()

        user: str = String()
        error_code: int = Int16()
        error_message: str | None = String(null=True)
        credential_infos: list[Credential] = Array(Credential)

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True)
    results: list[Result] = Array(Result)
