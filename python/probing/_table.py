"""@probing.table: a class whose instances can be saved as rows."""

import sys

from . import _native

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
    if "__init__" not in vars(cls):
        cls.__init__ = _make_init(cls, [field for field, _ in fields])
    cls.save, cls.append_many = _make_methods(store, fields)
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


def _define(source, scope):
    """The function that `source` defines. Field names are identifiers, so they can be code."""
    exec(source, scope)
    return scope["defined"]


def _make_init(cls, names):
    scope, parameters, optional = {}, ["self"], False
    for name in names:
        if hasattr(cls, name):
            scope["default_" + name] = getattr(cls, name)
            parameters.append("%s=default_%s" % (name, name))
            optional = True
        elif optional:
            raise TypeError("%s.%s has no default but comes after one that has" % (cls.__name__, name))
        else:
            parameters.append(name)
    body = "".join("    self.%s = %s\n" % (name, name) for name in names)
    init = _define("def defined(%s):\n%s" % (", ".join(parameters), body), scope)
    init.__name__, init.__qualname__ = "__init__", "%s.__init__" % cls.__qualname__
    return init


def _stamp(value):
    """A time in ns from what a field for times may hold."""
    if not hasattr(value, "microsecond"):
        return value
    return int(value.replace(microsecond=0).timestamp()) * 10**9 + value.microsecond * 1000


def _make_methods(store, fields):
    """save() and append_many(); the values are taken by code made for these fields, which is fast."""
    kinds = dict(fields)
    values = ["stamp(row.timestamp)" if STAMP in kinds else "None"]
    for name, kind in fields:
        if name != STAMP:
            values.append(("stamp(row.%s)" if kind == STAMP else "row.%s") % name)
    values = ", ".join(values)
    source = "def defined(row):\n    return store.append(%s) or store.again(%s)\n" % (values, values)
    save = _define(source, {"store": store, "stamp": _stamp})
    save.__name__, save.__doc__ = "save", "Adds this row to the table. Returns whether it was stored."

    def append_many(rows):
        """Adds many rows; returns how many were stored."""
        return sum([bool(save(row)) for row in rows])

    return save, staticmethod(append_many)
