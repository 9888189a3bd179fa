"""A connection of a SASL listener without its socket: tokens without headers, size limits, and arbitrary bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire import WireError, decode_response, encode_request
from kwire.frames import pack
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from mockbroker.base.effects import Client, Close, Dismiss, Reply
from mockbroker.broker.authentication import Authentication, AuthenticationStage
from mockbroker.broker.sasl.scram import derive
from mockbroker.net.sasl_connection import SaslRequests
from mockbroker.quotas.entity import Entity
from mockbroker.security.users import Users
from mockbroker.throttling.stage import QuotaStage

PASSWORDS = {"alice": "alice-secret"}
USERS = Users(PASSWORDS, derive(PASSWORDS, ["SCRAM-SHA-256"], lambda: b"0123456789abcdef"))
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4


class Served:
    """One connection whose requests are handled at once."""

    def __init__(self, **config: object) -> None:
        given = {name.replace("_", "."): value for name, value in config.items()}
        self.router = BrokerHarness(config={"connection.failed.authentication.delay.ms": 0} | given).router
        self.authentication = Authentication(USERS, self.router.broker.settings, lambda: "server")
        self.requests = SaslRequests(1, Client(0, "", "/", "SASL"), self.router, self.authentication)
        self.stages = (AuthenticationStage(self.authentication, self.router.broker),)
        self.now = 0.0

    def send(self, frame: bytes) -> bytes | None:
        """Return the response, which must be one frame, or None if the connection ends. Raises: kwire.WireError."""
        self.requests.receive(pack(frame))
        call = self.requests.next_call()
        assert call is not None
        (outcome,) = self.router.step(call, self.now, self.stages)
        match outcome:
            case Reply():
                return self.requests.answer(outcome)
            case Dismiss(ticket, response) if response is not None:
                self.requests.answer(Reply(ticket, response))
            case Dismiss() | Close():
                pass
        return None

    def ask(self, request: Any, version: int) -> Any:
        frame = encode_request(request, version, correlation_id=7, client_id="me")
        answer = self.send(frame)
        assert answer is not None
        return decode_response(answer[4:], int.from_bytes(frame[:2], "big"), version).body


def test_a_token_without_a_header():
    served = Served()
    assert served.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == E.NONE
    assert served.send(b"\0alice\0alice-secret") == pack(b"")
    assert (served.authentication.user, served.authentication.raw_tokens) == ("alice", False)
    assert served.ask(*BEAT).error_code == E.UNKNOWN_MEMBER_ID


def test_tokens_of_scram_without_headers():
    served = Served()
    served.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 0)
    challenge = served.send(b"n,,n=alice,r=abc")
    assert challenge is not None
    assert challenge[4:].startswith(b"r=abcserver,s=")
    assert served.authentication.raw_tokens


def test_sizes():
    served = Served(sasl_server_max_receive_size=100)
    served.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    served.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2)
    large = HeartbeatRequest(group_id="g" * 1_000, generation_id=1, member_id="m"), 4
    assert served.ask(*large).error_code == E.UNKNOWN_MEMBER_ID
    with pytest.raises(WireError, match="above the limit of 100"):
        Served(sasl_server_max_receive_size=100).ask(*large)


def test_quota_of_the_user_applies_after_authentication() -> None:
    served = Served(mockbroker_quota_request_us=200_000)
    quotas = served.router.broker.quotas
    quotas.changed.append(QuotaStage(served.router).apply_quotas)
    served.router.identity = lambda _: served.requests.identity
    quotas.alter(Entity("alice"), {"request_percentage": 1.0}, validate_only=False)
    versions = ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3
    assert served.ask(*versions).throttle_time_ms == 0  # the user is not known yet
    served.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    served.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2)
    assert served.ask(*versions).throttle_time_ms > 0  # the request has the same bytes as before


NAMES = st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "NOPE"])
TOKENS = st.sampled_from(
    [b"\0alice\0alice-secret", b"n,,n=alice,r=abc", b"n,,\1auth=Bearer a.b.\1\1", b"\1", b"c=biws,r=abcserver,p=AAAA"]
) | st.binary(max_size=30)


def encoded(request: Any, version: int) -> bytes:
    return encode_request(request, version, correlation_id=1)


FRAMES = (
    st.builds(lambda name, version: encoded(SaslHandshakeRequest(mechanism=name), version), NAMES, st.integers(0, 1))
    | st.builds(lambda data, v: encoded(SaslAuthenticateRequest(auth_bytes=data), v), TOKENS, st.integers(0, 2))
    | TOKENS
    | st.just(encoded(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3))
    | st.just(encoded(*BEAT))
)


@settings(deadline=None)
@given(st.lists(st.tuples(FRAMES, st.sampled_from([0.0, 0.5, 2.0])), max_size=12))
def test_any_bytes_before_authentication(said):
    """The broker responds or closes the connection; only a client with a valid password is authenticated."""
    served = Served(connections_max_reauth_ms=1_500)
    given_away = False
    for frame, pause in said:
        served.now += pause
        given_away |= b"\0alice\0alice-secret" in frame
        try:
            if served.send(frame) is None:
                break
        except WireError:
            break
        assert served.authentication.user in ("", "alice" if given_away else "")
