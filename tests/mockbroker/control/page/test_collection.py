"""Collections in the document of the live page."""

from __future__ import annotations

from mockbroker.control.page.collection import Allotment, Collection


def test_the_patch_of_a_collection() -> None:
    collection = Collection()
    list(collection.put_all({"a": lambda: {"n": 1, "none": None}, "b": lambda: {"n": 2}}))
    assert collection.content == collection.patch == {"a": {"n": 1}, "b": {"n": 2}}
    collection.begin()
    list(collection.put_all({"b": lambda: {"n": 3}, "c": dict}))
    assert collection.patch == {"a": None, "b": {"n": 3}, "c": {}}
    assert collection.content == {"b": {"n": 3}, "c": {}}


def test_an_allotment_counts_what_it_leaves_out() -> None:
    allotment = Allotment(each=3, in_all=5)
    assert [allotment.take(number) for number in (2, 9, 4, 1)] == [2, 3, 0, 0]
    assert allotment.left_out == 6 + 4 + 1
