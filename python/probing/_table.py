"""@probing.table: a class whose instances can be saved as rows."""

import sys

from . import _native
from ._record import time_ns

TYPES = {int: "int64", float: "double", bool: "bool", str: "string", bytes: "bytes"}
NAMES = {kind.__name__: kind for kind in TYPES}
STAMP = "timestamp"


def table(cls=None, name=None):
    """Makes a table ``python.<name>`` of an annotated class::

        @probing.table
        class Batch:
            size: int
            loss: float
            note: str = None

        Batch(32, 0.25).save()
        Batch.append_many([Batch(32, 0.2), Batch(16, 0.1, "last")])

    A dataclass or any class with annotations; other classes get an __init__. The name is that of the
    class in snake_case unless ``name`` says otherwise. Types are int, float, bool, str, bytes and
    datetime, and Optional of these; None is NULL. Every row has the time it was saved; a field
    ``timestamp`` (ns, or a datetime) overrides it. The same class again is the same table; with
    other columns it is an error: give the new one another name.
    """
    if isinstance(cls, str):
        cls, name = None, cls
    if cls is None:
        return lambda decorated: table(decorated, name)
    fields = _fields(cls)
    columns = [(STAMP, STAMP)] + [(field, kind) for field, kind in fields if field != STAMP]
    store = _native.Table("python." + (name or _snake_case(cls.__name__)), columns)
    functions = _native.find(now=True)
    if functions is not None:
        store.connect(functions)
    names = [field for field, _ in fields]
    if "__init__" not in vars(cls):
        cls.__init__ = _make_init(cls, names)
    cls.save, cls.append_many = _make_methods(store, names)
    cls.__probing_table__ = store.name
    return cls


def _snake_case(name):
    words = "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)
    return words.lstrip("_")


def _fields(cls):
    """[(name, type)] in the order of their definition."""
    found = {}
    for base in reversed(cls.__mro__):
        found.update(vars(base).get("__annotations__") or {})
    if not found and hasattr(cls, "__annotations__"):
        found.update(cls.__annotations__)  # Python 3.14 makes them when asked
    if not found:
        raise TypeError("%s has no annotated field: a table needs columns" % cls.__name__)
    fields = []
    for name, annotation in found.items():
        kind = _kind(annotation, cls)
        if kind is None:
            raise TypeError(
                "%s.%s is %r: a column is int, float, bool, str, bytes or datetime, or Optional of one"
                % (cls.__name__, name, annotation)
            )
        fields.append((name, STAMP if name == STAMP else kind))
    return fields


def _kind(annotation, cls):
    if isinstance(annotation, str):
        annotation = NAMES.get(annotation) or _resolve(annotation, cls)
    options = [kind for kind in _options(annotation) if kind is not type(None)]
    if len(options) != 1:
        return None
    kind = options[0]
    if kind in TYPES:
        return TYPES[kind]
    return STAMP if getattr(kind, "__name__", "") == "datetime" else None


def _options(annotation):
    """(int, NoneType) of Optional[int] and of int | None; (int,) of int."""
    kind = type(annotation).__name__
    if kind in ("Union", "_Union", "UnionType", "_GenericAlias", "_UnionGenericAlias"):
        if kind != "_GenericAlias" or getattr(annotation.__origin__, "_name", "") == "Union":
            return annotation.__args__
    return (annotation,)


def _resolve(text, cls):
    import typing

    scope = dict(vars(typing), **getattr(sys.modules.get(cls.__module__), "__dict__", {}))
    try:
        return eval(text, scope)
    except Exception:
        return None


def _make_init(cls, names):
    def __init__(self, *args, **kwargs):
        if len(args) > len(names):
            raise TypeError("%s takes %d values; %d were given" % (cls.__name__, len(names), len(args)))
        given = dict(zip(names, args))
        for name, value in kwargs.items():
            if name not in names or name in given:
                raise TypeError("%s has no field %r, or it was given twice" % (cls.__name__, name))
            given[name] = value
        for name in names:
            if name not in given and not hasattr(cls, name):
                raise TypeError("%s needs a value for %r" % (cls.__name__, name))
            setattr(self, name, given[name] if name in given else getattr(cls, name))

    return __init__


def _stamp(value):
    """A time in ns from what a field `timestamp` may hold."""
    return (
        int(value.timestamp()) * 10**9 + value.microsecond * 1000 if hasattr(value, "microsecond") else value
    )


def _make_methods(store, names):
    own = [name for name in names if name != STAMP]
    has_time = STAMP in names

    def values_of(row):
        values = [getattr(row, name) for name in own]
        for i, value in enumerate(values):
            if hasattr(value, "microsecond"):
                values[i] = _stamp(value)
        time = _stamp(getattr(row, STAMP)) if has_time else None
        return [time_ns() if time is None else time] + values

    def save(self):
        """Adds this row to the table. Returns whether it was stored."""
        values = values_of(self)
        return store.append(*values) or store.again(*values)

    def append_many(rows):
        """Adds many rows; returns how many were stored."""
        stored = 0
        for row in rows:
            values = values_of(row)
            stored += bool(store.append(*values) or store.again(*values))
        return stored

    return save, staticmethod(append_many)
