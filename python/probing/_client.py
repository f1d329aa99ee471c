"""Asks probingd, the daemon beside the targets, over its unix socket."""

import http.client
import json
import os
import socket
import subprocess

from . import _library, _rows
from ._errors import QueryError

VERSION_HEADER = "Probing-Version"


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
        wanted = _rows.wanted_format(format)
        body = {"sql": sql}
        if self.target is not None:
            body["target"] = self.target
        if _rows.needs_arrow(wanted):
            return _rows.from_arrow(self._fetch("POST", "/api/v1/query", dict(body, format="arrow")), wanted)
        answer = self._ask("POST", "/api/v1/query", body)
        return _rows.from_rows(_rows.Rows(answer["columns"], answer["rows"]), wanted)

    def eval(self, code, timeout=None):
        """Runs Python code in the target; returns the answer's fields as a dict."""
        body = {"target": self.target if self.target is not None else os.getpid(), "code": code}
        if timeout is not None:
            body["timeout"] = timeout
        return self._ask("POST", "/api/v1/eval", body)

    def _ask(self, method, path, body):
        text = self._fetch(method, path, body)
        try:
            return json.loads(text.decode("utf-8"))
        except ValueError:
            raise QueryError("probingd answered something that is not JSON") from None

    def _fetch(self, method, path, body):
        """The bytes of the answer; a failure is a QueryError."""
        try:
            status, content = self._exchange(method, path, body)
        except OSError:
            _start_daemon()
            status, content = self._exchange(method, path, body)
        if status == 200:
            return content
        try:
            error = json.loads(content.decode("utf-8"))["error"]
        except (ValueError, KeyError):
            raise QueryError("probingd answered %s with something that is not JSON" % status) from None
        hint = error.get("hint")
        raise QueryError(error.get("message", "failed") + (" (%s)" % hint if hint else ""))

    def _exchange(self, method, path, body):
        from . import __version__

        connection = _UnixConnection(_daemon_socket(), self.timeout)
        try:
            headers = {"Content-Type": "application/json", VERSION_HEADER: __version__}
            connection.request(method, path, json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read()
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
