"""Asks probingd, the daemon beside the targets, over its unix socket."""

import http.client
import json
import os
import socket
import subprocess
import sys

from . import _library
from ._errors import QueryError

VERSION_HEADER = "Probing-Version"
FRAMES = ("pandas", "polars", "pyarrow")


class Rows(list):
    """The rows of an answer, as tuples; ``columns`` are their names and ``types`` their SQL types."""

    def __init__(self, columns, rows):
        list.__init__(self, [tuple(row) for row in rows])
        self.columns = [column["name"] for column in columns]
        self.types = [column.get("type") for column in columns]

    def to_dicts(self):
        return [dict(zip(self.columns, row)) for row in self]

    def column(self, name):
        at = self.columns.index(name)
        return [row[at] for row in self]

    def __repr__(self):
        lines = ["  ".join(self.columns)]
        lines += ["  ".join("NULL" if value is None else str(value) for value in row) for row in self[:20]]
        if len(self) > 20:
            lines.append("… %d rows" % len(self))
        return "\n".join(lines)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        http.client.HTTPConnection.__init__(self, "localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Connection(object):
    """Questions about one target, or about all of this host. See connect()."""

    def __init__(self, target=None, timeout=30):
        self.target = target
        self.timeout = timeout

    def query(self, sql, format=None):
        """Runs one SQL statement. The answer is a pandas or polars DataFrame or a pyarrow Table when
        the program has imported one of these (the first in this order), else Rows. ``format`` asks
        for one: "pandas", "polars", "pyarrow" or "rows"."""
        body = {"sql": sql}
        if self.target is not None:
            body["target"] = self.target
        answer = self._ask("POST", "/api/v1/query", body)
        return as_frame(Rows(answer["columns"], answer["rows"]), format)

    def eval(self, code, timeout=None):
        """Runs Python code in the target; returns the answer's fields as a dict."""
        body = {"target": self.target if self.target is not None else os.getpid(), "code": code}
        if timeout is not None:
            body["timeout"] = timeout
        return self._ask("POST", "/api/v1/eval", body)

    def _ask(self, method, path, body):
        try:
            status, text = self._exchange(method, path, body)
        except OSError:
            _start_daemon()
            status, text = self._exchange(method, path, body)
        try:
            answer = json.loads(text)
        except ValueError:
            raise QueryError("probingd answered %s with something that is not JSON" % status) from None
        error = answer.get("error")
        if error:
            hint = error.get("hint")
            raise QueryError(error.get("message", "failed") + (" (%s)" % hint if hint else ""))
        return answer

    def _exchange(self, method, path, body):
        from . import __version__

        connection = _UnixConnection(_daemon_socket(), self.timeout)
        try:
            headers = {"Content-Type": "application/json", VERSION_HEADER: __version__}
            connection.request(method, path, json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read().decode("utf-8")
        finally:
            connection.close()


def _daemon_socket():
    for parent in _library.RUNTIME_PARENTS:
        path = "%s/probing-%d/probingd.sock" % (parent, os.getuid())
        if os.path.exists(path):
            return path
    raise OSError("probingd does not run")


def _start_daemon():
    """`probing status` starts the daemon; it is beside the library, or in PATH."""
    beside = os.path.join(os.path.dirname(_library.find()), "probing")
    program = beside if os.access(beside, os.X_OK) else "probing"
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "PROBING", "PROBE")}
    try:
        subprocess.check_output([program, "status"], stderr=subprocess.STDOUT, env=environment, timeout=15)
    except (OSError, subprocess.SubprocessError) as error:
        raise QueryError("probingd does not run and could not be started: %s" % error) from None


def as_frame(rows, format=None):
    if format is None:
        format = next((name for name in FRAMES if name in sys.modules), "rows")
    if format == "rows":
        return rows
    if format == "pandas":
        import pandas

        return pandas.DataFrame.from_records(list(rows), columns=rows.columns)
    columns = {name: [row[i] for row in rows] for i, name in enumerate(rows.columns)}
    if format == "polars":
        import polars

        return polars.DataFrame(columns, strict=False)
    if format == "pyarrow":
        import pyarrow

        return pyarrow.table(columns)
    raise ValueError("format is pandas, polars, pyarrow or rows, not %r" % (format,))
