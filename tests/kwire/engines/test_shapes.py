from kwire.engines.generated import ReaderOptions
from kwire.engines.runtime import WARM
from kwire.engines.shapes import MAX_COUNT, MAX_SHAPES, Shapes, key_of, uniform
from kwire.layout import List, Record, resolve
from kwire.messages.metadata import MetadataResponse
from kwire.messages.produce import ProduceRequest


def element(message: type, version: int, *names: str) -> Record:
    node = resolve(message, version)
    for name in names:
        array = next(slot.node for slot in node.slots if slot.name == name)
        assert isinstance(array, List)
        assert isinstance(array.element, Record)
        node = array.element
    return node


PARTITION = element(MetadataResponse, 12, "topics", "partitions")


def test_structs_that_can_be_rows() -> None:
    assert uniform(PARTITION)
    assert not uniform(element(MetadataResponse, 12, "topics")), "an array of structs"
    assert not uniform(element(ProduceRequest, 9, "topic_data", "partition_data")), "records"
    assert key_of(PARTITION, 9) == ["n10", "n11", "n12"]


def test_loop_is_generated_for_a_repeated_shape() -> None:
    shapes = Shapes(PARTITION, ReaderOptions())
    assert [shapes[4, 4, 1] is None for _ in range(WARM)] == [True] * (WARM - 1) + [False]
    assert shapes[4, 4, 1] is shapes[4, 4, 1]


def test_every_input_ends_its_loops() -> None:
    shapes = Shapes(PARTITION, ReaderOptions())
    for n in range(100):
        for _ in range(WARM):
            shapes[n, 1, 1]
    assert len(shapes) <= MAX_SHAPES
    assert len(shapes._seen) <= MAX_SHAPES + 1


def test_rows_that_are_too_long_are_not_made() -> None:
    shapes = Shapes(PARTITION, ReaderOptions())
    for _ in range(2 * WARM):
        assert shapes[MAX_COUNT + 1, 1, 1] is None
        assert shapes[100, 1, 1] is None
