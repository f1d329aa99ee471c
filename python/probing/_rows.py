"""Answers of queries as Python values: rows, or the data frame that the program uses."""

import datetime
import io
import sys

FRAMES = ("pandas", "polars", "pyarrow")
NOT_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
UTC = datetime.timezone.utc


class Rows(list):
    """The rows of an answer, as tuples; ``columns`` are their names and ``types`` their SQL types.

    Integers, floats (also NaN), bools, text, bytes and times (a datetime in UTC) are Python's own, NULL is
    None. Other types of SQL are text."""

    def __init__(self, columns, rows):
        self.columns = [column["name"] for column in columns]
        self.types = [column.get("type") or "" for column in columns]
        readers = [_reader(kind) for kind in self.types]
        if any(readers):
            rows = [
                [read(value) if read and value is not None else value for read, value in zip(readers, row)]
                for row in rows
            ]
        list.__init__(self, [tuple(row) for row in rows])

    def to_dicts(self):
        """Every row as a dict by the names of the columns."""
        return [dict(zip(self.columns, row)) for row in self]

    def column(self, name):
        """The values of one column."""
        at = self.columns.index(name)
        return [row[at] for row in self]

    def _repr_html_(self):
        from . import _views

        return _views.rows_html(self)

    def __repr__(self):
        lines = ["  ".join(self.columns)]
        lines += ["  ".join("NULL" if value is None else str(value) for value in row) for row in self[:20]]
        if len(self) > 20:
            lines.append("… %d rows" % len(self))
        return "\n".join(lines)


def _reader(kind):
    """What makes a Python value of one that came as JSON; None where nothing is to do."""
    if kind == "DOUBLE":
        return lambda value: NOT_NUMBERS.get(value, value) if isinstance(value, str) else value
    if kind == "BLOB":
        return _bytes
    if kind == "TIMESTAMPTZ":
        return _time
    return None


def _bytes(text):
    r"""From ``ab\x00\xFF``; a backslash is ``\x5C``."""
    first, rest = text.split("\\x")[0], text.split("\\x")[1:]
    parts = [first.encode("ascii")]
    for part in rest:
        parts.append(bytes([int(part[:2], 16)]) + part[2:].encode("ascii"))
    return b"".join(parts)


def _time(text):
    """From ``2026-01-01 00:00:00.123456+00``; the text itself when Python has no such time."""
    pattern = "%Y-%m-%d %H:%M:%S" + (".%f" if "." in text else "")
    try:
        return datetime.datetime.strptime(text[:-3], pattern).replace(tzinfo=UTC)
    except ValueError:
        return text


def wanted_format(format):
    """The name of what the caller gets: the asked one, or the first that the program has imported."""
    if format == "arrow":
        return "pyarrow"
    if format in (None, "auto"):
        return next((name for name in FRAMES if name in sys.modules), "rows")
    if format not in FRAMES + ("rows",):
        raise ValueError("format is rows, pandas, polars, arrow or auto, not %r" % (format,))
    return format


def needs_arrow(format):
    """Whether the answer is to come as an Arrow stream, which keeps every value as it is. pandas can do
    without."""
    if format != "pandas":
        return format != "rows"
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def from_arrow(stream, format):
    if format == "polars":
        import polars

        return polars.read_ipc_stream(io.BytesIO(stream))
    import pyarrow

    table = pyarrow.ipc.open_stream(stream).read_all()
    if format == "pyarrow":
        return table
    frame = table.to_pandas(integer_object_nulls=True)
    for field in table.schema:
        if pyarrow.types.is_integer(field.type) and frame[field.name].dtype == object:
            frame[field.name] = frame[field.name].astype("Int64")  # as floats large ones would change
    return frame


def from_rows(rows, format):
    if format == "rows":
        return rows
    import pandas

    columns = {}
    for i in range(len(rows.columns)):
        values = [row[i] for row in rows]
        gaps = rows.types[i] == "BIGINT" and None in values  # as floats large ones would change
        fits = gaps and all(value is None or -(2**63) <= value < 2**63 for value in values)
        columns[i] = pandas.array(values, dtype="Int64") if fits else values
    frame = pandas.DataFrame(columns)
    frame.columns = rows.columns
    return frame
