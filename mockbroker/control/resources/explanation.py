"""The JSON form of explained frames: the tree of kwire.explain, with limits on its size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kwire.explain import Explanation, Piece
from kwire.explain.pieces import UNREAD

PIECES = 5_000  # maximum number in a tree
VALUE = 1_000  # maximum characters of a value; a bytes field can be as long as the frame


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation (a tree of the pieces of a frame) as a JSON object.

    At most PIECES pieces are converted. If some children of an object are not converted, its key ``left_out`` is their
    number.
    """
    return _Tree().explanation(explanation)


class _Tree:
    """The conversion of one explanation to JSON. It counts the converted pieces to apply the limit PIECES."""

    def __init__(self) -> None:
        self._left = PIECES

    def explanation(self, explanation: Explanation) -> dict[str, Any]:
        out: dict[str, Any] = {"name": explanation.name, **self._children(explanation.pieces)}
        if explanation.error is not None:
            out["error"] = str(explanation.error)
        return out

    def _children(self, pieces: Iterable[Piece]) -> dict[str, Any]:
        children, left_out = list[dict[str, Any]](), 0
        for piece in pieces:
            if self._left <= 0:
                left_out += 1
                continue
            self._left -= 1
            children.append(self._piece(piece))
        return {"children": children, **({"left_out": left_out} if left_out else {})}

    def _piece(self, piece: Piece) -> dict[str, Any]:
        out: dict[str, Any] = {
            "name": piece.name,
            "path": piece.path,
            "type": piece.type,
            "offset": piece.offset,
            "length": piece.length,
        }
        if piece.type != UNREAD:
            out["value"] = _shortened(piece.value)
        for name in ("note", "head", "error"):
            if value := getattr(piece, name):
                out[name] = value
        if piece.pieces:
            out |= self._children(piece.pieces)
        if piece.unpacked is not None:
            out["unpacked"] = self.explanation(piece.unpacked)
        return out


def _shortened(value: Any) -> Any:
    return f"{value[:VALUE]}..." if isinstance(value, str) and len(value) > VALUE else value
