"""AlterUserScramCredentials (key 51): set and remove the SCRAM credentials of users (KIP-554).

The request contains the salted and hashed password.
"""

from kwire.schema import Api, Array, Bytes, Int8, Int16, Int32, String, request, response, struct

ALTER_USER_SCRAM_CREDENTIALS = Api(51, versions="0", flexible="0+")


@request(ALTER_USER_SCRAM_CREDENTIALS)
class AlterUserScramCredentialsRequest:
    @struct
    class Deletion:
        name: str = String()
        mechanism: int = Int8()

    @struct
    class Upsertion:
        name: str = String()
        mechanism: int = Int8()
        iterations: int = Int32()
        salt: bytes = Bytes()
        salted_password: bytes = Bytes()

    deletions: list[Deletion] = Array(Deletion)
    upsertions: list[Upsertion] = Array(Upsertion)


@response(ALTER_USER_SCRAM_CREDENTIALS)
class AlterUserScramCredentialsResponse:
    @struct
    class Result:
        user: str = String()
        error_code: int = Int16()
        error_message: str | None = String(null=True)

    throttle_time_ms: int = Int32()
    results: list[Result] = Array(Result)
