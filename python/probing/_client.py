"""Asks probingd, the daemon beside the targets, over its unix socket."""

import http.client
import json
import os
import socket
import subprocess

from . import _library, _rows, _views
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
        if isinstance(target, int) and not self._exists(target):
            raise QueryError("there is no process %d (`probing ps` lists those there are)" % target)

    def __repr__(self):
        return "<connection to %s>" % ("all processes of this host" if self.target is None else self.target)

    def query(self, sql, format="rows"):
        """Runs one SQL statement. The answer is always Rows, a list of tuples that a notebook shows as a
        table, unless ``format`` asks for something else: "pandas", "polars", "arrow" (a pyarrow Table), or
        "auto", which is the first of these that the program has imported."""
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

    def tables(self):
        """What can be asked for: the names of tables, and what is in them."""
        return self.query("SELECT table_name, kind, origin, doc FROM probing.tables ORDER BY table_name")

    def backtrace(self, native=False, locals=False, all=False):
        """Where every thread is, read from outside: no probe is needed. The arguments are the options of
        `probing backtrace`."""
        wanted = [("native", native), ("locals", locals), ("all", all)]
        query = "?target=%d" % self._pid() + "".join("&%s=1" % name for name, on in wanted if on)
        path = "/api/v1/backtrace" + query + "&format="
        text = self._fetch("GET", path + "text", None).decode("utf-8")
        return _views.Backtrace(text, json.loads(self._fetch("GET", path + "json", None).decode("utf-8")))

    def flamegraph(self, seconds=5, hz=100, native=False):
        """Samples the process for that long, from outside, and gives a flame graph to look at."""
        body = {"target": self._pid(), "format": "html", "seconds": seconds, "hz": hz, "native": native}
        page = self._fetch("POST", "/api/v1/flamegraph", body, self.timeout + seconds)
        return _views.FlameGraph(page.decode("utf-8"), "process %d" % self._pid())

    def steps(self, last=200):
        """The last training steps as a chart, by phase; ``.rows`` has the numbers. Needs the probe's
        tracing (probing.torch.profiling)."""
        rows = self.query(
            "SELECT step, duration, data_wait, forward, backward, optimizer FROM (SELECT * FROM "
            "python.torch_steps ORDER BY timestamp DESC LIMIT %d) ORDER BY timestamp" % int(last)
        )
        return _views.StepChart(rows)

    def _pid(self):
        if self.target is None:
            raise QueryError("name a process: probing.connect(pid)")
        return int(self.target)

    def _exists(self, pid):
        """Whether the process runs, or has ended and left something that can be asked about."""
        if os.path.exists("/proc/%d" % pid):
            return True
        try:
            status, content = self._exchange("GET", "/api/v1/targets", None)
        except OSError:
            return False
        targets = json.loads(content.decode("utf-8")).get("targets", []) if status == 200 else []
        return any(target.get("pid") == pid for target in targets)

    def _ask(self, method, path, body):
        text = self._fetch(method, path, body)
        try:
            return json.loads(text.decode("utf-8"))
        except ValueError:
            raise QueryError("probingd answered something that is not JSON") from None

    def _fetch(self, method, path, body, timeout=None):
        """The bytes of the answer; a failure is a QueryError."""
        try:
            status, content = self._exchange(method, path, body, timeout)
        except OSError:
            _start_daemon()
            status, content = self._exchange(method, path, body, timeout)
        if status == 200:
            return content
        try:
            error = json.loads(content.decode("utf-8"))["error"]
        except (ValueError, KeyError):
            raise QueryError("probingd answered %s with something that is not JSON" % status) from None
        hint = error.get("hint")
        raise QueryError(error.get("message", "failed") + (" (%s)" % hint if hint else ""))

    def _exchange(self, method, path, body, timeout=None):
        from . import __version__

        connection = _UnixConnection(_daemon_socket(), timeout or self.timeout)
        try:
            headers = {"Content-Type": "application/json", VERSION_HEADER: __version__}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
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
