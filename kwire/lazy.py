"""Public names of a package that are imported on first use, so that one name does not load the whole package."""

TYPE_CHECKING = False  # type checkers take it as true; typing need not be imported
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def lazy_names(
    package: str, names: "dict[str, object]", modules: "Mapping[str, Sequence[str]]"
) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """Return ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: Full name of the package.
        names: The package's ``globals()``; a name is stored there when it is first used.
        modules: Public names by module, each module relative to the package.
    """
    module_of = {name: module for module, public in modules.items() for name in public}

    def getattr_(name: str) -> object:
        from importlib import import_module

        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = names[name] = getattr(import_module(f"{package}.{module_of[name]}"), name)
        return value

    def dir_() -> "list[str]":
        return sorted({*names, *module_of})

    return getattr_, dir_
