from __future__ import annotations

from kwire.errors import DecodeError
from kwire.explain.pieces import UNREAD, Explanation, Piece, TreeBuilder


def explanation_of(tree: TreeBuilder) -> Explanation:
    return Explanation("", b"", tree.done())


def test_node_spans_its_children() -> None:
    tree = TreeBuilder(100, "outer.")
    tree.open(0, "list", "array of int8", 2)
    tree.leaf(0, 4, "list.(count)", "int32", 2)
    tree.leaf(4, 5, "list[0]", "int8", 7)
    tree.leaf(5, 6, "list[1]", "int8", 8)
    tree.close(6)
    (node,) = tree.done()
    assert (node.offset, node.end, node.own, node.path, node.name) == (100, 106, 4, "outer.list", "list")
    assert [(piece.name, piece.own) for piece in node.fields] == [("list[0]", 1), ("list[1]", 1)]
    assert [piece.name for piece in explanation_of(tree).leaves()] == ["(count)", "list[0]", "list[1]"]
    assert [depth for depth, _ in explanation_of(tree).walk()] == [0, 1, 1, 1]


def shape(pieces: tuple[Piece, ...]) -> list[object]:
    return [(piece.name, shape(piece.pieces)) if piece.pieces else piece.name for piece in pieces]


def test_giving_up_inside_a_node() -> None:
    tree = TreeBuilder()
    tree.leaf(0, 1, "a", "int8")
    tree.open(1, "b", "struct")
    tree.leaf(1, 2, "b.c", "int8")
    pieces = tree.give_up(DecodeError("no", path="b.d", offset=2), 9)
    assert shape(pieces) == ["a", ("b", ["c", "d"])]
    rest = pieces[1].pieces[1]
    assert (rest.offset, rest.end, rest.type, rest.error) == (2, 9, UNREAD, "no")


def test_pieces_after_the_error_are_dropped() -> None:
    tree = TreeBuilder()
    tree.leaf(0, 1, "a", "int8")
    tree.open(1, "b", "struct")
    tree.leaf(1, 2, "b.c", "int8")
    tree.leaf(2, 4, "b.d", "int16")
    tree.close(4)
    tree.open(4, "e", "struct")
    assert shape(tree.give_up(DecodeError("no", path="f", offset=2), 9)) == ["a", "c", "f"]


def test_giving_up_at_the_start() -> None:
    tree = TreeBuilder(5)
    tree.open(0, "a", "struct")
    (rest,) = tree.give_up(DecodeError("no"), 0)
    assert (rest.offset, rest.length, rest.path) == (5, 0, "")
