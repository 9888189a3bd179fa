"""Lazy public names of a package. A name is imported on first use, so that using one name does not load the whole
package.

The names are listed in one place, the stub ``__init__.pyi`` of the package, which type checkers read too. Each line of
the stub imports one name: ``from kwire.codec import decode as decode``.
"""

TYPE_CHECKING = False  # type checkers take it as true; typing need not be imported
if TYPE_CHECKING:
    from collections.abc import Callable


def lazy_names(names: "dict[str, object]") -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """Return the functions ``__getattr__`` and ``__dir__`` for a package whose public names are imported on first use.

    Args:
        names: ``globals()`` of the package. After the first use of a name, its value is stored there.
    """
    modules: dict[str, str] = {}  # by public name

    def module_names() -> "dict[str, str]":
        if not modules:
            loader, path = names["__spec__"].loader, f"{names['__file__']}i"  # type: ignore[attr-defined]
            for line in loader.get_data(path).decode().splitlines():
                if line.startswith("from "):
                    module, imported = line.removeprefix("from ").split(" import ")
                    modules[imported.split(" as ")[0]] = module
        return modules

    def getattr_(name: str) -> object:
        public = {} if name.startswith("_") and name != "__all__" else module_names()
        if name == "__all__":
            return sorted(public)
        if name not in public:
            raise AttributeError(f"module {names['__name__']!r} has no attribute {name!r}")
        from importlib import import_module

        value = names[name] = getattr(import_module(public[name]), name)
        return value

    def dir_() -> "list[str]":
        return sorted({*names, *module_names()})

    return getattr_, dir_
