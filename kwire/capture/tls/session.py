"""The decryption of one captured TLS connection: bytes of both directions in, Kafka bytes out."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.capture.tls.ciphers import SUITES, TLS_1_2, TLS_1_3, Keys12, Keys13, Suite, keys_of_tls_1_2
from kwire.capture.tls.hellos import Choice, HelloError, client_random, server_choice
from kwire.capture.tls.keylog import KeyLog

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, DATA = 20, 21, 22, 23  # content types of records
HEADER = 5  # bytes before the body of a record
MAX_RECORD = 16_384 + 2_048  # bytes of a body: the limit of TLS 1.2; that of TLS 1.3 is lower
MAX_WAITING = 1 << 20  # bytes of one direction that wait for the ServerHello
MAX_HELLO = 65_536  # bytes of a ClientHello or ServerHello
LEAST_RECORD = HEADER + 17  # bytes of the shortest encrypted record
MAX_MISSING = 256  # records that may be missing before a record that is decrypted
MAX_TRIES = 20_000  # failed decryptions of a direction in a row
MAX_UNREAD = 32  # records before the first decrypted one: those of a handshake whose secrets are unknown

Plain = list[tuple[bool, bytes]]


class _Direction:
    """The state of one direction.

    Attributes:
        buffer: bytes of incomplete records.
        hello: bytes of a ClientHello or ServerHello that is not complete yet.
        keys: the current keys, then the keys that replace them later in the handshake; empty while the keys are
            unknown.
        is_encrypted: True if all further records are encrypted, whatever their content type (TLS 1.2).
        replaced: number of keys that later keys have replaced.
        number: sequence number of the next record.
        missing: number of records that may be missing before the next one.
        is_lost: True if the position of the next record is unknown.
        has_read: True if a record was decrypted.
        tries: failed decryptions since the last decrypted record.
        unread: number of records that could not be decrypted since the last decrypted record.
    """

    __slots__ = (
        "buffer",
        "has_read",
        "hello",
        "is_encrypted",
        "is_lost",
        "keys",
        "missing",
        "number",
        "replaced",
        "tries",
        "unread",
    )

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.hello = b""
        self.keys: list[Keys12 | Keys13] = []
        self.is_encrypted = self.is_lost = self.has_read = False
        self.number = self.replaced = self.missing = self.tries = self.unread = 0

    def use(self, keys: list[Keys12 | Keys13]) -> None:
        """Set the keys, except those that later keys have replaced. ``keys``: first keys, in the order of use."""
        for _ in range(self.replaced):
            current = keys[0]
            keys = keys[1:] or ([current.updated()] if isinstance(current, Keys13) else keys)
        self.keys = keys

    def decrypt(self, header: bytes, body: bytes) -> tuple[int, bytes] | None:
        """Return the content type and the plaintext of a record; None if no keys and no sequence number fit.

        The method updates the keys and the sequence number for the next record, and the counters of failures.

        Args:
            header: header of the record.
            body: body of the record.
        """
        current = self.keys[0]
        following = self.keys[1:]
        if not following and isinstance(current, Keys13):
            following = [current.updated()]
        begun = [(current, self.number), *((keys, 0) for keys in following)]
        for index, (keys, first) in enumerate(begun):
            for number in range(first, first + self.missing + 1):
                content = keys.decrypt(header, body, number)
                if content is not None:
                    self.keys = [keys, *following[index:]] if index else self.keys
                    self.replaced += index
                    self.number = number + 1
                    self.missing = self.tries = self.unread = 0
                    self.has_read = True
                    return content
                self.tries += 1
        self.unread += 1
        return None


class TlsSession:
    """The decryption of one connection.

    ``plain`` can encode the state of a session after ``forget_secrets``.

    Args:
        keylog: secrets of connections.

    Attributes:
        begin: first bytes of the client, with the ClientHello.
        refused: why the connection cannot be decrypted; None as long as no reason is known.
    """

    __slots__ = ("_choice", "_directions", "_keylog", "_random", "begin", "refused")

    def __init__(self, keylog: KeyLog) -> None:
        self._keylog: KeyLog | None = keylog
        self._directions = {True: _Direction(), False: _Direction()}
        self._random: bytes | None = None
        self._choice: Choice | None = None  # None until the keys are known
        self.begin = b""
        self.refused: str | None = None

    def forget_secrets(self) -> None:
        """Remove the key log and all keys. Before the next bytes, ``use_secrets`` must be called."""
        self._keylog = None
        for direction in self._directions.values():
            direction.keys = []

    def use_secrets(self, keylog: KeyLog | None) -> None:
        """Continue with the secrets of a key log; None for none. If this connection has none, ``refused`` is set."""
        self._keylog = keylog
        if self._random is not None and self._choice is not None:
            self._derive_keys(self._random, self._choice)

    @property
    def held(self) -> int:
        """The number of bytes that are buffered until their records are complete or their keys are known."""
        return sum(len(direction.buffer) + len(direction.hello) for direction in self._directions.values())

    def feed(self, from_client: bool, data: bytes) -> Plain:
        """Decrypt the next bytes of a direction.

        Args:
            from_client: True for bytes of the client, False for bytes of the broker.
            data: captured bytes, in order.

        Returns:
            Pairs of a direction and its next plaintext. They may be of both directions, because the ServerHello makes
            earlier bytes of the client readable. An empty plaintext means that records of the direction are missing.
        """
        out: Plain = []
        if from_client and len(self.begin) < MAX_HELLO and self._choice is None:
            self.begin += data
        self._directions[from_client].buffer += data
        state = self._choice, self._random
        self._process(from_client, out)
        if (self._choice, self._random) != state:
            self._process(not from_client, out)
        return out

    def lost(self, from_client: bool, size: int) -> None:
        """Handle bytes of a direction that were not captured: search for the next record.

        If the keys are not known yet, ``refused`` is set, because bytes of the handshake are missing.

        Args:
            from_client: True for bytes of the client, False for bytes of the broker.
            size: number of missing bytes.
        """
        direction = self._directions[from_client]
        self._lose(direction, size + len(direction.buffer))
        direction.buffer.clear()
        if self._choice is None:
            self._refuse("bytes of the handshake are missing")

    @staticmethod
    def _lose(direction: _Direction, size: int) -> None:
        direction.is_lost = True
        direction.missing = min(direction.missing + size // LEAST_RECORD + 1, MAX_MISSING)

    def _refuse(self, reason: str) -> None:
        self.refused = self.refused or reason

    def _process(self, from_client: bool, out: Plain) -> None:
        """Process the complete records in the buffer of a direction; append the plaintext to ``out``."""
        direction = self._directions[from_client]
        buffer = direction.buffer
        at = 0
        while not self.refused and len(buffer) - at >= HEADER:
            kind, size = buffer[at], int.from_bytes(buffer[at + 3 : at + HEADER], "big")
            if not (CHANGE_CIPHER_SPEC <= kind <= DATA and buffer[at + 1] == 3 and size <= MAX_RECORD):
                if self._choice is None:
                    self._refuse(f"invalid record header {bytes(buffer[at : at + HEADER]).hex(' ')}")
                elif not direction.is_lost:
                    self._lose(direction, len(buffer) - at)
                at += 1
                continue
            end = at + HEADER + size
            if end > len(buffer) or not (self._choice is not None or self._is_hello_due(from_client, kind)):
                break
            header, body = bytes(buffer[at : at + HEADER]), bytes(buffer[at + HEADER : end])
            at = end if self._record(from_client, header, body, out) else at + 1
        del buffer[:at]
        if self._choice is None and len(buffer) > MAX_WAITING:
            self._refuse("no ServerHello was captured")

    def _is_hello_due(self, from_client: bool, kind: int) -> bool:
        """Return whether a record has the next hello of the handshake. Hellos are processed before the keys are known.

        In a capture, the ServerHello may come before the ClientHello; it is then processed after the ClientHello.

        Args:
            from_client: True for a record of the client, False for a record of the broker.
            kind: content type of the record.
        """
        return kind != DATA and from_client is (self._random is None)

    def _record(self, from_client: bool, header: bytes, body: bytes, out: Plain) -> bool:
        """Process a TLS record.

        Args:
            from_client: True for a record of the client, False for a record of the broker.
            header: header of the record.
            body: body of the record.
            out: list to which the plaintext is appended.

        Returns: False if the bytes are not a record. After missing bytes, any bytes may look like a record.
        """
        direction = self._directions[from_client]
        kind = header[0]
        if not (direction.is_encrypted or (kind == DATA and direction.keys)):
            if kind == CHANGE_CIPHER_SPEC:
                direction.is_encrypted = bool(direction.keys) and isinstance(direction.keys[0], Keys12)
            elif kind == HANDSHAKE and self._choice is None:
                self._hello(from_client, direction.hello + body)
            return not direction.is_lost
        content = direction.decrypt(header, body)
        if content is None:
            if direction.tries > MAX_TRIES:
                self._refuse("too many bytes are missing")
            elif not direction.has_read and direction.unread > MAX_UNREAD:
                self._refuse("the secrets in the key log are those of another connection")
            elif not direction.is_lost:
                direction.missing = min(direction.missing + 1, MAX_MISSING)
                if direction.has_read and direction.unread == 1:
                    out.append((from_client, b""))
                return True
            return False
        if direction.is_lost:
            direction.is_lost = False
            out.append((from_client, b""))
        kind, plain = content
        if kind == DATA and plain:
            out.append((from_client, plain))
        return True

    def _hello(self, from_client: bool, data: bytes) -> None:
        direction = self._directions[from_client]
        try:
            hello = client_random(data) if from_client else server_choice(data)
        except HelloError as error:
            self._refuse(str(error))
            return
        direction.hello = data if hello is None else b""
        if len(direction.hello) > MAX_HELLO:
            self._refuse("the hello is too large")
        elif isinstance(hello, bytes):
            self._random = hello
        elif hello is not None and hello.is_retry:
            self._random = None  # the client sends another ClientHello
        elif hello is not None:
            self._choose(hello)

    def _choose(self, choice: Choice) -> None:
        """Derive the keys of both directions; set ``refused`` to the reason if this is impossible.

        ``choice``: protocol version and cipher suite of the
        connection.
        """
        if self._random is None:
            self._refuse("no ClientHello was captured")
        elif choice.version not in (TLS_1_2, TLS_1_3):
            self._refuse(f"version {choice.version:#06x} is not supported (only TLS 1.2 and 1.3)")
        elif choice.suite not in SUITES:
            self._refuse(f"cipher suite {choice.suite:#06x} is not supported (only AES-GCM and ChaCha20-Poly1305)")
        else:
            self._derive_keys(self._random, choice)

    def _derive_keys(self, hello_random: bytes, choice: Choice) -> None:
        """Store the current keys of both directions and ``choice``; set ``refused`` if secrets are missing.

        Args:
            hello_random: random value of the ClientHello.
            choice: protocol version and cipher suite of the connection.
        """
        known = {} if self._keylog is None else self._keylog.secrets_of(hello_random)
        keys = _keys(choice, SUITES[choice.suite], known, choice.server_random + hello_random)
        if keys is None:
            self._refuse(f"the key log has no secret for the client random {hello_random.hex()}")
        else:
            self._choice = choice
            for from_client, first_keys in zip((True, False), keys, strict=True):
                self._directions[from_client].use(first_keys)


def _keys(
    choice: Choice, suite: Suite, known: Mapping[str, bytes], randoms: bytes
) -> tuple[list[Keys12 | Keys13], list[Keys12 | Keys13]] | None:
    """Return the keys of the client and of the server, in the order of use; None if secrets are missing.

    Args:
        choice: protocol version and cipher suite of the connection.
        suite: the cipher suite.
        known: secrets of the connection, by label.
        randoms: random value of the ServerHello, followed by the random value of the ClientHello.
    """
    if choice.version == TLS_1_2:
        if (master := known.get("CLIENT_RANDOM")) is None:
            return None
        client, server = keys_of_tls_1_2(suite, master, randoms)
        return [client], [server]
    found: list[list[Keys12 | Keys13]] = []
    for side in ("CLIENT", "SERVER"):
        labels = f"{side}_HANDSHAKE_TRAFFIC_SECRET", f"{side}_TRAFFIC_SECRET_0"
        if labels[1] not in known:
            return None
        found.append([Keys13(suite, known[label]) for label in labels if label in known])
    return found[0], found[1]
