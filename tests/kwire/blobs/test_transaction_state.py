from __future__ import annotations

import pytest

from kwire.blobs import decode_record, encode_record
from kwire.blobs.transaction_state import TransactionLogKey, TransactionLogValue
from kwire.errors import EncodeError, UnknownRecordType

TOPIC = "__transaction_state"
KEY = TransactionLogKey(transactional_id="x")
EMPTY = TransactionLogValue(producer_id=7, transaction_timeout_ms=60_000, transaction_partitions=None)


def test_a_transactional_id_without_a_transaction() -> None:
    key, value = encode_record(KEY, EMPTY, 0)
    assert (key, value) == (
        bytes.fromhex("0000" + "000178"),
        bytes.fromhex("0000" + "0000000000000007" + "0000" + "0000ea60" + "00" + "ffffffff" + "00" * 16),
    )
    assert decode_record(TOPIC, key, value) == (KEY, EMPTY)
    assert decode_record(TOPIC, key, None) == (KEY, None)


def test_tags_are_not_in_the_order_of_fields() -> None:
    value = TransactionLogValue(next_producer_epoch=5, client_transaction_version=2)
    key, stored = encode_record(KEY, value, 1)
    assert stored is not None
    assert stored.endswith(bytes.fromhex("02" + "02020002" + "03020005"))
    assert decode_record(TOPIC, key, stored) == (KEY, value)


def test_v0_has_no_place_for_it() -> None:
    with pytest.raises(EncodeError, match="previous_producer_id"):
        encode_record(KEY, TransactionLogValue(previous_producer_id=3), 0)


def test_there_is_one_type() -> None:
    with pytest.raises(UnknownRecordType, match="unknown record type 1"):
        decode_record(TOPIC, b"\0\1", None)
