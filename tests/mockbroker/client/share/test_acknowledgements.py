from __future__ import annotations

from mockbroker.client.share.acknowledgements import AckBatch, AcknowledgeType, Delivery, ShareRecord, batches_of

ACCEPT, RELEASE, RENEW, GAP = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.RENEW,
    AcknowledgeType.GAP,
)


def test_consecutive_offsets_are_one_batch() -> None:
    types = {5: ACCEPT, 3: ACCEPT, 4: RELEASE, 9: GAP, 10: GAP}
    assert batches_of(types) == [AckBatch(3, 5, (ACCEPT, RELEASE, ACCEPT)), AckBatch(9, 10, (GAP,))]
    assert batches_of({}) == []


def test_renewed_record_stays_open() -> None:
    delivery = Delivery(0, ("t", 0), [ShareRecord(offset=1), ShareRecord(offset=2)], [3])
    assert delivery.types == {3: GAP}
    delivery.acknowledge([1], RENEW)
    delivery.acknowledge([2], ACCEPT)
    assert delivery.open == {1}
    assert delivery.take_types() == {1: RENEW, 2: ACCEPT, 3: GAP}
    assert delivery.take_types() == {}


def test_types_have_the_numbers_of_kafka() -> None:
    assert [(each.name, each.value) for each in AcknowledgeType] == [
        ("GAP", 0),
        ("ACCEPT", 1),
        ("RELEASE", 2),
        ("REJECT", 3),
        ("RENEW", 4),
    ]
