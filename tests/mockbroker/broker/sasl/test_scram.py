"""SCRAM: two recorded exchanges with Kafka 4.2.0, and its responses to other messages of clients."""

from __future__ import annotations

import hashlib
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient

from mockbroker.broker.sasl.mechanism import Authenticated, Challenge, Failed
from mockbroker.broker.sasl.plain import OTHER_AUTHORIZATION
from mockbroker.broker.sasl.scram import Scram256Or512, derive
from mockbroker.security.delegation_tokens import DelegationToken, Principal
from mockbroker.security.users import ScramCredential, Users

SALT = b"0123456789abcdef"
USERS = Users(scram=derive({"alice": "alice-secret", "al,ice": "x"}, ["SCRAM-SHA-256", "SCRAM-SHA-512"], lambda: SALT))
SHORT, LONG = "SCRAM-SHA-256", "SCRAM-SHA-512"
NONCE = "fyko+d2lbbFgONRv9qkxdawL"
RECORDED = [  # mechanism, nonce of the server, messages of client, server, client, server
    (
        SHORT,
        "gglcx2gyf8t8xbiy4wcn3snr0",
        f"n,,n=alice,r={NONCE}",
        f"r={NONCE}gglcx2gyf8t8xbiy4wcn3snr0,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=4096",
        f"c=biws,r={NONCE}gglcx2gyf8t8xbiy4wcn3snr0,p=LfhIqC+kP6/9rJRMUPrLRCnAvMm+CzB2qdw0e/C2Vc4=",
        "v=WuWsNEMjkvDcwgeRkmq9OvoDnp7EABxWZ8mG0E81gVw=",
    ),
    (
        LONG,
        "1g6huibagyx7x2ie5wcnpiaxi0",
        f"n,,n=alice,r={NONCE}",
        f"r={NONCE}1g6huibagyx7x2ie5wcnpiaxi0,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=4096",
        f"c=biws,r={NONCE}1g6huibagyx7x2ie5wcnpiaxi0,"
        "p=9eMvetWMT9MXiIAmk2cpSpSOa+yGhs7SmzENIGky+f8Lu3oANCCLiR2jXdwf4xGbgMm1woYRYDZdZd8YFEksWQ==",
        "v=SMcH/XOcDHGevRVNn2qMvmcjGXNDslqpCBCKRvGiQTUP3dYl3SKM189PLHpIX/U8lqkE4aVBdGbKwxUzuixdKg==",
    ),
]


def begin(mechanism: str = SHORT, nonce: str = "server") -> Scram256Or512:
    return Scram256Or512(mechanism, USERS, lambda: nonce)


@pytest.mark.parametrize(("mechanism", "nonce", "first", "challenge", "final", "signature"), RECORDED)
def test_recorded_exchange(mechanism, nonce, first, challenge, final, signature):
    scram = begin(mechanism, challenge.partition(",")[0][len(f"r={NONCE}") :])
    assert nonce in challenge
    assert scram.evaluate(first.encode(), 0) == Challenge(challenge.encode())
    assert scram.evaluate(final.encode(), 0) == Authenticated("alice", signature.encode())


FIRST = [  # None: accepted
    (b"n,,n=alice,r=abc", None),
    (b"n,,n=al=2Cice,r=abc", None),
    (b"n,,n=alice,r=abc,x=1", None),
    (b"garbage", Failed()),
    (b"", Failed()),
    (b"n,,n=unknown,r=abc", Failed()),
    (b"n,,n=,r=abc", Failed()),
    (b"y,,n=alice,r=abc", Failed()),
    (b"p=tls-unique,,n=alice,r=abc", Failed()),
    (b"n,a=bob,n=alice,r=abc", Failed(OTHER_AUTHORIZATION)),
    (b"n,a=alice,n=alice,r=abc", None),
    (b"n,a=,n=alice,r=abc", Failed()),
    (b"n,,n=alice,r=abc,tokenauth=true", Failed()),  # not the id of a delegation token
    (b"n,,n=alice,r=abc,tokenauth=false", None),
    (b"n,,n=alice,r=tokenauth=true", None),
    (b"n,,m=1,n=alice,r=abc", Failed()),  # Kafka accepts it
    (b"n,,n=alice,r=a,b", Failed()),
    (b"n,,n=al=ice,r=abc", Failed()),
    (b"n,,n=\xff,r=abc", Failed()),
    (b"n,,r=abc,n=alice", Failed()),
]


@pytest.mark.parametrize(("token", "verdict"), FIRST)
def test_client_first_message(token, verdict):
    result = begin().evaluate(token, 0)
    assert result == verdict if verdict else isinstance(result, Challenge)


def final(client: ScramClient, scram: Scram256Or512) -> str:
    challenge = scram.evaluate(client.get_client_first().encode(), 0)
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.token.decode())
    return client.get_client_final()


def test_authorization_id_of_the_user_is_accepted():
    client, scram = ScramClient([SHORT], "alice", "alice-secret"), begin()
    client.gs2_header = OwnName()
    assert scram.evaluate(final(client, scram).encode(), 0) == Authenticated("alice", ANY)


class OwnName:
    """The header of a client that sends its authorization id."""

    def __str__(self) -> str:
        return "n,a=alice,"

    def make_cbind_input(self, _: object) -> bytes:
        return b"n,a=alice,"


LAST = [  # the change of a valid message
    lambda text: text.replace(",r=", ",r=z"),
    lambda text: text.replace("c=biws", "c=eSws"),
    lambda text: text.replace("p=", "p=A"),
    lambda _: "garbage",
    lambda _: "",
]


@pytest.mark.parametrize("change", LAST)
def test_client_final_message(change):
    scram = begin()
    assert scram.evaluate(change(final(ScramClient([SHORT], "alice", "alice-secret"), scram)).encode(), 0) == Failed()


@pytest.mark.parametrize("mechanism", [SHORT, LONG])
def test_wrong_password(mechanism):
    scram = begin(mechanism)
    assert scram.evaluate(final(ScramClient([mechanism], "alice", "other"), scram).encode(), 0) == Failed()


def test_credential_of_a_salted_password():
    salted = hashlib.pbkdf2_hmac("sha256", b"alice-secret", SALT, 4096)
    assert ScramCredential.from_salted_password(SHORT, salted, SALT, 4096) == USERS.scram["alice", SHORT]


@pytest.mark.parametrize("password", ["m²", "µ\u00a0½", "🙂", "\t"], ids=["square", "micro", "emoji", "tab"])
def test_a_password_is_hashed_as_by_kafka_clients(password):
    """SASLprep would change the first two passwords, and reject the others."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, 4096)
    expected = ScramCredential.from_salted_password(SHORT, salted, SALT, 4096)
    assert derive({"alice": password}, [SHORT], lambda: SALT) == {("alice", SHORT): expected}


def test_credentials_of_the_scram_mechanisms():
    derived = derive({"alice": "alice-secret", "bob": "b"}, ["PLAIN", SHORT, "OAUTHBEARER"], lambda: SALT)
    assert derived.keys() == {("alice", SHORT), ("bob", SHORT)}
    assert derived["alice", SHORT] == USERS.scram["alice", SHORT]
    assert derived["bob", SHORT].iterations == 4096


@given(st.binary(max_size=40), st.integers(0, 90))
def test_random_message_has_a_result(noise, at):
    """Random bytes replace the first message, or are inserted into the first or the final message."""
    first = b"n,,n=alice,r=abc"
    for data in (noise, first[:at] + noise + first[at:]):
        assert isinstance(begin().evaluate(data, 0), Challenge | Failed)
    scram = begin()
    right = final(ScramClient([SHORT], "alice", "alice-secret"), scram).encode()
    assert isinstance(scram.evaluate(right[:at] + noise + right[at:], 0), Authenticated | Failed)


TOKEN = DelegationToken(
    token_id="AAAA_id",
    hmac=b"hmac",
    owner=Principal("User", "carol"),
    requester=Principal("User", "alice"),
    renewers=(),
    issued_ms=0,
    expires_at_ms=5_000,
    max_ms=9_000,
)


@pytest.mark.parametrize("extensions", [",tokenauth=true", ",other=1,tokenauth=TRUE,more=2"])
@pytest.mark.parametrize("mechanism", [SHORT, LONG])
def test_a_token_authenticates_its_owner(mechanism, extensions):
    """The session of the client ends when the token expires."""
    assert log_in(mechanism, extensions, TOKEN.password) == Authenticated(
        "carol", ANY, expires_at_ms=5_000, by_token=True
    )


def test_a_token_needs_its_hmac():
    assert log_in(SHORT, ",tokenauth=true", "wrong") == Failed()


def log_in(mechanism: str, extensions: str, password: str) -> object:
    """Return the result of authenticating as a token with this password and these extensions."""
    users = Users()
    users.tokens.put(TOKEN)
    scram = Scram256Or512(mechanism, users, lambda: "server")
    client = ScramClient([mechanism], TOKEN.token_id, password)
    first = client.get_client_first() + extensions
    client.client_first_bare = first.removeprefix("n,,")  # the client signs it
    challenge = scram.evaluate(first.encode(), 0)
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.token.decode())
    return scram.evaluate(client.get_client_final().encode(), 0)
