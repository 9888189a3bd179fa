"""Dataclasses whose methods are generated on first use, compared with those of ``dataclasses``."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, field
from importlib import import_module
from pathlib import Path
from threading import Barrier, Thread
from typing import Any, ClassVar

import pytest

from kwire import lazy_dataclass
from kwire.lazy_dataclass import dataclass

SERVE_MODULES = Path(__file__).parent.parent / "serve_modules.txt"
OPTIONS: dict[str, dict[str, bool]] = {
    "plain": {},
    "frozen": {"frozen": True},
    "keywords": {"kw_only": True},
    "frozen keywords": {"frozen": True, "kw_only": True},
    "identity": {"eq": False},
    "hashable": {"unsafe_hash": True},
    "ordered": {"order": True},
}


def declared(make: Callable[..., Any], **options: bool) -> tuple[Any, Any]:
    """Return a class with one field of each kind, and one that inherits from it."""

    @make(slots=True, **options)
    class Parent:
        LIMIT: ClassVar[int] = 3

        name: str
        number: int = 7
        items: list[int] = field(default_factory=list, compare=False)
        secret: str = field(default="x", repr=False)
        total: int = field(default=0, init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.number + self.LIMIT)

    @make(slots=True, **options)
    class Child(Parent):
        number: int = 8
        more: tuple[int, ...] = ()

    for each in (Parent, Child):
        each.__qualname__ = each.__name__
        globals()[each.__name__] = each  # pickle finds classes by name
    return Parent, Child


@pytest.fixture(params=OPTIONS.values(), ids=list(OPTIONS))
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Return the same class as a dataclass of ``dataclasses`` and as a lazy one."""
    return declared(dataclasses.dataclass, **request.param)[1], declared(dataclass, **request.param)[1]


def test_an_instance_is_like_one_of_dataclasses(pair: tuple[Any, Any]) -> None:
    for cls in pair:
        one, same, other = cls(name="a", more=(1,)), cls(name="a", items=[1], more=(1,)), cls(name="b")
        one.items.append(2)
        assert (same.items, other.items, one.total) == ([1], [], 11)
        with pytest.raises(AttributeError):
            object.__setattr__(one, "nmae", "typo")
        assert repr(one) == "Child(name='a', number=8, items=[2], total=11, more=(1,))"
        assert (one == same) is (cls.__eq__ is not object.__eq__)
        assert (one == other) is False
        assert dataclasses.replace(other, name="a", more=(1,)).name == "a"
        assert copy.copy(one).items is one.items
    real, lazy = pair
    assert (real.__hash__ is None) == (lazy.__hash__ is None)
    assert [each.name for each in dataclasses.fields(real)] == [each.name for each in dataclasses.fields(lazy)]
    assert real.__slots__ == lazy.__slots__
    assert real.__match_args__ == lazy.__match_args__
    assert set(vars(real)) - {"__doc__"} == set(vars(lazy)) - {"__doc__"}


def test_the_first_use_may_be_any(pair: tuple[Any, Any]) -> None:
    real, lazy = pair
    assert str(inspect.signature(lazy)) == str(inspect.signature(real))
    assert str(lazy(name="a")) == str(real(name="a"))


@pytest.mark.parametrize("options", [{}, {"frozen": True}], ids=["plain", "frozen"])
def test_a_pickled_instance_is_read_before_any_call(options: dict[str, bool]) -> None:
    data = pickle.dumps(declared(dataclass, **options)[1](name="a"))
    fresh = declared(dataclass, **options)[1]
    assert pickle.loads(data) == fresh(name="a")


def test_a_frozen_instance_cannot_be_changed() -> None:
    for cls in declared(dataclass, frozen=True):
        value = cls(name="a")
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
            value.name = "b"
        with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
            del value.name
        assert hash(value) == hash(cls(name="a"))


def test_positional_patterns_match() -> None:
    cls = declared(dataclass)[0]
    match cls("a", 5):
        case cls(name, number):
            assert (name, number) == ("a", 5)
        case _:
            pytest.fail("no match")


def test_an_object_made_without_init_has_methods() -> None:
    cls = declared(dataclass)[0]
    one, same = object.__new__(cls), object.__new__(cls)
    for each in (one, same):
        each.name, each.number, each.items, each.secret, each.total = "a", 1, [], "", 0
    assert one == same
    assert repr(one) == "Parent(name='a', number=1, items=[], total=0)"


def test_wrong_arguments_are_named() -> None:
    cls = declared(dataclass)[0]
    with pytest.raises(TypeError, match=r"Parent.__init__\(\) missing 1 required positional argument: 'name'"):
        cls()
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        cls("a", other=1)


def test_own_methods_are_kept() -> None:
    @dataclass(frozen=True, slots=True)
    class Own:
        number: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

    assert repr(Own(1)) == "own"
    assert Own(1) == Own(2)
    assert hash(Own(1)) == hash((1,))


def test_a_field_may_have_any_name() -> None:
    @dataclass(slots=True)
    class Names:
        instance: int
        args: int = 0
        values: int = 0
        name: int = 0

    assert repr(Names(instance=1, values=2)).endswith("Names(instance=1, args=0, values=2, name=0)")


def test_the_constructor_generates_no_other_method(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = declared(dataclass, frozen=True)[0]
    with monkeypatch.context() as context:
        context.delattr(dataclasses, "dataclass")
        assert cls("a").name == "a"
        with pytest.raises(AttributeError):
            repr(cls("a"))


def test_threads_may_create_the_first_instances() -> None:
    for _ in range(20):
        cls, barrier, made = declared(dataclass, frozen=True)[1], Barrier(4), []

        def create(cls: Any = cls, barrier: Barrier = barrier, made: list[Any] = made) -> None:
            barrier.wait()
            made.append(hash(cls(name="a")))

        threads = [Thread(target=create) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 4
        assert len(set(made)) == 1


def is_lazy(value: object, module: str) -> bool:
    """Return whether a value is a dataclass that this module declares, and no message."""
    return (
        isinstance(value, type)
        and value.__module__ == module
        and dataclasses.is_dataclass(value)
        and not hasattr(value, "__kafka__")
    )


def classes_of_serve() -> Iterator[Any]:
    """Yield the lazy dataclasses of the modules that ``mockbroker serve`` loads."""
    for module in SERVE_MODULES.read_text("utf-8").split():
        if not module.endswith("__main__"):
            yield from (value for value in vars(import_module(module)).values() if is_lazy(value, module))


def test_constructors_are_those_of_dataclasses() -> None:
    count = 0
    for cls in classes_of_serve():
        params = cls.__dataclass_params__
        if "__dataclass_fields__" not in vars(cls) or "__slots__" not in vars(cls) or not params.init:
            continue
        fields = {each.name: (each, bool(each.kw_only)) for each in dataclasses.fields(cls)}
        init = lazy_dataclass._init(cls, fields, params.frozen)
        ours, real = inspect.signature(init).parameters, inspect.signature(cls.__init__).parameters
        assert [(each.name, each.kind) for each in ours.values()] == [(each.name, each.kind) for each in real.values()]
        for name, parameter in real.items():
            if "factory" not in repr(parameter.default):
                assert ours[name].default is parameter.default
        count += 1
    assert count > 100
