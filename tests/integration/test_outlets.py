"""Findings, stalls, metrics and spans reach other systems: Alertmanager, webhooks, OpenTelemetry,
the system's log. Secrets reach nobody else, and nothing that fails there holds anything up here."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, Target, ask_daemon
from receiver import Post, Receiver
from users import User, free_port

CLIENTS = harness.ROOT / "build/clients-venv/bin/python"
ALERTMANAGER = shutil.which("prometheus-alertmanager")
RULE = """-- class: alarm
-- about: a rule of one's own
SELECT pid AS pids, [3] AS ranks, 'it burns' AS evidence, 'error' AS severity,
       'probing -t ' || pid || ' backtrace' AS next
FROM global.probing.targets WHERE state = 'live'
"""
# Each is somewhere in a setting, and may be nowhere else.
SECRETS = ("hunter2", "s3cr3tpath", "qu3rykey", "h3ader", "aHVudGVy", "agent007")


def wait_until(condition: Callable[[], Any], timeout: float = 25, what: str = "") -> Any:
    """Some looks of probingd, each of which asks all rules."""
    return harness.wait_until(condition, timeout, what)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


class Desk:
    """A user whose probingd finds something as long as a file is there."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.folder = Path(tempfile.mkdtemp(prefix="probing-outlets-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.rule = self.folder / "probing/diagnose/alarm.sql"
        self.rule.parent.mkdir(parents=True)
        self.target = user.target()

    def start(self, **settings: str) -> None:
        """`settings` are those below probing.outlets."""
        self.environment = {f"PROBING_OUTLETS_{name.upper()}": value for name, value in settings.items()}
        self.environment |= {"XDG_CONFIG_HOME": str(self.folder), "PROBING_OUTLETS_INTERVAL": "0.5"}
        self("-t", self.target.pid, "inject").expect(0)

    def __call__(self, *words: object) -> harness.Answer:
        return self.user(*words, **self.environment)

    def rows(self) -> list[dict[str, Any]]:
        return self("query", "-f", "json", "SELECT * FROM probing.outlets").expect(0).json

    def row(self) -> dict[str, Any]:
        [row] = self.rows()
        return row

    def burn(self) -> None:
        self.rule.write_text(RULE)

    def quench(self) -> None:
        self.rule.unlink()


@pytest.fixture
def desk(user: User) -> Iterator[Desk]:
    one = Desk(user)
    yield one
    shutil.rmtree(one.folder)


def alarms(posts: list[Post]) -> list[dict[str, Any]]:
    """Of webhooks: each alert of the rule."""
    alerts = [alert for post in posts for alert in post.json["alerts"]]
    return [alert for alert in alerts if alert["labels"]["alertname"] == "alarm"]


def test_a_finding_reaches_a_webhook_when_it_begins_and_when_it_ends(desk: Desk, receiver: Receiver) -> None:
    desk.start(webhook=f"{receiver.url}/hook", repeat="3600")
    desk.burn()
    [alert] = wait_until(lambda: alarms(receiver.posts), what="the finding is told")
    body = receiver.posts[0].json
    assert (body["version"], body["status"]) == ("4", "firing")
    assert receiver.posts[0].headers["Content-Type"] == "application/json"
    labels = alert["labels"]
    assert labels["severity"] == "error" and labels["pids"] == str(desk.target.pid) and labels["ranks"] == "3"
    assert alert["annotations"]["summary"] == "it burns"
    assert alert["annotations"]["next"] == f"probing -t {desk.target.pid} backtrace"
    assert alert["startsAt"].endswith("Z") and alert["endsAt"] == "0001-01-01T00:00:00Z"
    looked = desk("status", "--json").expect(0)  # it is told once, however often it is looked for
    desk.quench()
    ended = wait_until(lambda: alarms(receiver.posts)[1:], what="its end is told")
    assert [each["status"] for each in ended] == ["resolved"], looked
    assert ended[0]["labels"] == labels and ended[0]["endsAt"] > ended[0]["startsAt"]
    assert ended[0]["fingerprint"] == alert["fingerprint"]
    row = wait_until(lambda: desk.row()["sent"] >= 2 and desk.row(), what="both are counted")
    assert row["outlet"] == "webhook" and row["failed"] == row["dropped"] == 0 and row["last_error"] is None


def test_a_finding_that_lasts_is_told_again(desk: Desk, receiver: Receiver) -> None:
    desk.start(webhook=receiver.url, repeat="1.5")
    desk.burn()
    told = wait_until(lambda: alarms(receiver.posts)[2:], what="it is told three times")
    assert {each["status"] for each in told} == {"firing"}
    posts = [post for post in receiver.posts if alarms([post])]
    assert posts[2].at - posts[0].at >= 2 * 1.5 - 0.5, "and not more often than it should be"


def test_what_fails_is_tried_again_and_what_is_refused_is_dropped(desk: Desk, receiver: Receiver) -> None:
    receiver.status = 503
    desk.start(webhook=receiver.url)
    desk.burn()
    row = wait_until(lambda: (desk.row()["failed"] >= 2) and desk.row(), what="it is tried twice")
    assert "HTTP 503" in row["last_error"] and row["waiting"] >= 1 and row["sent"] == row["dropped"] == 0
    receiver.status = 204
    row = wait_until(lambda: desk.row()["sent"] >= 1 and desk.row(), what="then it is taken")
    assert row["dropped"] == 0 and row["waiting"] == 0
    assert len({post.body for post in receiver.posts if alarms([post])}) == 1, "it is the same each time"
    receiver.status = 400
    desk.quench()
    row = wait_until(lambda: desk.row()["dropped"] >= 1 and desk.row(), what="a refusal")
    assert "HTTP 400" in row["last_error"] and row["waiting"] == 0


@pytest.mark.parametrize("how", ["refuses connections", "does not answer", "has no name"])
def test_nothing_waits_for_a_server_that_is_not_there(desk: Desk, receiver: Receiver, how: str) -> None:
    receiver.delay = 60
    port = receiver.port if how == "does not answer" else free_port()
    host = "no-such-host.invalid" if how == "has no name" else "127.0.0.1"
    desk.start(webhook=f"http://{host}:{port}/")
    desk.burn()
    row = wait_until(lambda: desk.row()["failed"] >= 1 and desk.row(), what="a try fails")
    assert row["sent"] == 0 and row["waiting"] >= 1 and row["last_error"]
    assert desk("-t", desk.target.pid, "backtrace").expect(0).seconds < 20


def test_secrets_are_sent_where_they_belong_and_shown_nowhere(desk: Desk, receiver: Receiver) -> None:
    receiver.status = 500  # and it says again whatever it was told
    url = f"http://agent007:hunter2@127.0.0.1:{receiver.port}/services/s3cr3tpath?key=qu3rykey"
    desk.start(webhook=url, webhook_headers="X-Api-Key=h3ader", otlp=url, otlp_headers="api-key=h3ader")
    desk.burn()
    wait_until(lambda: len(desk.rows()) == 2 and all(row["failed"] for row in desk.rows()), what="both fail")
    told = next(post for post in receiver.posts if post.path.startswith("/services/s3cr3tpath?"))
    assert told.path == "/services/s3cr3tpath?key=qu3rykey"
    assert (
        told.headers["Authorization"] == "Basic YWdlbnQwMDc6aHVudGVyMg=="
        and told.headers["X-Api-Key"] == "h3ader"
    )
    log = next(post for post in receiver.posts if "/v1/" in post.path)
    assert log.path.startswith("/services/s3cr3tpath/v1/") and log.headers["api-key"] == "h3ader"
    shown = "http://***@127.0.0.1:" + f"{receiver.port}/services/***?***"
    assert {row["url"] for row in desk.rows()} == {shown}
    # Said once more in every way there is, and wrongly as well.
    for wrong in ("probing.outlets.webhook=htps://hunter2/s3cr3tpath", "probing.outlets.otlp_headers=h3ader"):
        desk("config", wrong).expect(2)
    desk("config", f"probing.outlets.webhook={url}&more").expect(0)
    said = [
        desk("config"),
        desk("config", "--json"),
        desk("config", "probing.outlets.webhook"),
        desk("config", "probing.outlets.webhook_headers=X-Api-Key=h3ader"),
        desk("config", "probing.outlets.webhook=htps://hunter2/s3cr3tpath"),
        desk("config", "probing.outlets.otlp_headers=h3ader"),
        desk("config", "probing.outlet.webhook=https://hunter2/s3cr3tpath"),
        desk("query", "-f", "json", "SELECT * FROM probing.config"),
        desk("query", "-f", "json", "SELECT * FROM probing.outlets"),
        desk("status", "--json"),
        desk("diagnose", "--json"),
        # It runs already, and has other settings than this command's environment.
        desk.user("status", PROBING_OUTLETS_WEBHOOK=f"{url}&other"),
    ]
    texts = [answer.stdout + answer.stderr for answer in said]
    for file in desk.user.folder.iterdir():
        with suppress(OSError):
            texts.append(file.read_text(errors="replace"))
    assert any("probing.outlets" in text for text in texts[-3:]), "the log was read"
    for text in texts:
        assert not [secret for secret in SECRETS if secret in text], text


def make_certificate(folder: Path) -> Path:
    both = folder / "server.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    make += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run(
        [*make, "-keyout", both, "-out", folder / "authority.pem"], check=True, capture_output=True
    )
    both.write_bytes(both.read_bytes() + (folder / "authority.pem").read_bytes())
    (folder / "authority.pem").chmod(0o644)
    return both


def test_https_takes_a_certificate_that_an_authority_vouches_for(desk: Desk) -> None:
    receiver = Receiver(make_certificate(desk.folder))
    try:
        desk.start(webhook=f"https://127.0.0.1:{receiver.port}/")
        desk.burn()
        row = wait_until(lambda: desk.row()["failed"] >= 1 and desk.row(), what="it is not trusted")
        assert "no authority" in row["last_error"] and receiver.posts == []
        desk("config", f"probing.outlets.authority={desk.folder}/authority.pem").expect(0)
        wait_until(lambda: alarms(receiver.posts), what="now it is")
    finally:
        receiver.close()


@pytest.mark.skipif(
    ALERTMANAGER is None, reason="needs prometheus-alertmanager (tools/install_deps.sh servers)"
)
def test_alertmanager_lists_it_and_drops_it_when_it_has_ended(desk: Desk) -> None:
    port, folder = free_port(), desk.folder / "alertmanager"
    folder.mkdir()
    (folder / "config.yml").write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    command = [ALERTMANAGER, f"--config.file={folder}/config.yml", f"--storage.path={folder}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
    server = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE)

    def active() -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/alerts?active=true") as answer:
            return [each for each in json.load(answer) if each["labels"]["alertname"] == "alarm"]

    def answers() -> bool:
        with suppress(OSError):
            active()
            return True
        return False

    try:
        wait_until(answers, what="Alertmanager answers")
        desk.start(webhook=f"http://127.0.0.1:{port}/api/v2/alerts")
        desk.burn()
        [alert] = wait_until(active, what="it is there")
        assert (
            alert["labels"]["pids"] == str(desk.target.pid) and alert["annotations"]["summary"] == "it burns"
        )
        assert alert["endsAt"] > alert["startsAt"], "it ends by itself when nobody says that it lasts"
        desk.quench()
        wait_until(lambda: not active(), what="it has ended")
        row = desk.row()
        assert row["failed"] == row["dropped"] == 0, row
    finally:
        server.kill()
        server.communicate()


class Log:
    """A socket as the system's log has one."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        path.chmod(0o777)
        self.socket.setblocking(False)
        self.lines: list[str] = []

    def read(self) -> list[str]:
        with suppress(BlockingIOError):
            while True:
                self.lines.append(self.socket.recv(65536).decode())
        return [line for line in self.lines if "alarm" in line]


@pytest.mark.parametrize("name", ["log", "journal/socket"])
def test_the_system_s_log_has_a_line(desk: Desk, name: str) -> None:
    log = Log(desk.folder / name)
    desk.start(syslog=str(desk.folder / name))
    desk.burn()
    [line] = wait_until(log.read, what="a line")
    text = f"alarm ranks=3 pids={desk.target.pid}: it burns; next: probing -t {desk.target.pid} backtrace"
    if name == "log":
        assert line.startswith("<27>") and f" probingd[{desk.user.daemon()}]: {text}" in line
    else:
        fields = dict(each.split("=", 1) for each in line.strip().split("\n"))
        assert fields["MESSAGE"] == text and fields["PRIORITY"] == "3"
        assert fields["PROBING_CLASS"] == "alarm" and fields["SYSLOG_IDENTIFIER"] == "probingd"
    desk.quench()
    ended = wait_until(lambda: log.read()[1:], what="its end")
    assert "resolved" in ended[0]
    assert desk.row()["dropped"] == 0
    log.socket.close()
    (desk.folder / name).unlink()
    desk.burn()
    row = wait_until(lambda: desk.row()["dropped"] >= 1 and desk.row(), what="it goes nowhere")
    assert "No such file" in row["last_error"] or "ENOENT" in row["last_error"]


def test_without_a_setting_there_is_nothing(desk: Desk) -> None:
    desk.start()
    desk.burn()
    wait_until(lambda: "alarm" in desk("diagnose").stdout, what="it is found by those who ask")
    assert desk.rows() == []
    names = [
        Path(f"/proc/{desk.user.daemon()}/task/{tid}/comm").read_text().strip()
        for tid in os.listdir(f"/proc/{desk.user.daemon()}/task")
    ]
    assert "probing-outlet" not in names


# ── with this user's own daemon ──────────────────────────────────────────────────────────────


@pytest.fixture
def configured(probing: Cli) -> Iterator[Callable[..., None]]:
    """Sets what is below probing.outlets, and takes it back."""
    probing("config", "probing.outlets.interval=0.5", "probing.stalls.limit=5").expect(0)
    yield lambda **settings: probing(
        "config", *(f"probing.outlets.{k}={v}" for k, v in settings.items())
    ).expect(0)
    probing("config", *(f"probing.outlets.{k}=none" for k in ("webhook", "otlp", "syslog"))).expect(0)
    probing("config", "probing.outlets.interval=15", "probing.stalls.limit=0").expect(0)


def test_a_stall_is_an_alert_and_many_at_one_place_are_one(
    probing: Cli, target: Callable[..., Target], receiver: Receiver, configured: Callable[..., None]
) -> None:
    job = target("sleep")
    probing("-t", job.pid, "inject").expect(0)
    configured(webhook=receiver.url)
    # What was before an outlet is not told there.
    outlets = ("query", "-f", "json", "SELECT outlet FROM probing.outlets")
    wait_until(lambda: probing(*outlets).expect(0).json, what="the outlet is there")
    for _ in range(5):
        ask_daemon("POST", "events", {"target": job.pid, "name": "request timed out", "duration": 0.2})
    count = f"SELECT count(*) AS n FROM python.stalls WHERE pid = {job.pid}"
    wait_until(lambda: probing("query", "-f", "json", count).expect(0).json[0]["n"] >= 5, what="five rows")

    def stalls() -> list[dict[str, Any]]:
        alerts = [alert for post in receiver.posts for alert in post.json["alerts"]]
        return [alert for alert in alerts if alert["labels"].get("pids") == str(job.pid)]

    [alert] = wait_until(stalls, what="the stall is told")
    assert alert["labels"]["alertname"] == "stall" and alert["labels"]["kind"] == "event"
    assert "request timed out" in alert["annotations"]["summary"]
    looked = len(receiver.posts)
    ask_daemon("POST", "events", {"target": job.pid, "name": "request timed out", "duration": 0.1})
    wait_until(lambda: probing("query", "-f", "json", count).expect(0).json[0]["n"] >= 6, what="a sixth")
    assert len(stalls()) == 1, (looked, receiver.posts)


SPANS = """
import sys, time
sys.path.insert(0, sys.argv[1])
import probing
with probing.span("run"):
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(3):
        with probing.span("request", number=number, route="/predict"):
            with probing.span("database"):
                time.sleep(0.01)
            probing.event("answered")
print("done", flush=True)
sys.stdin.readline()
"""


def as_read(kind: str, posts: list[Post], folder: Path) -> list[dict[str, Any]]:
    """The requests of one kind, as a collector reads them."""
    read = []
    for post in posts:
        if not post.path.endswith(f"/v1/{kind}"):
            continue
        assert post.headers["Content-Type"] == "application/x-protobuf"
        (folder / "request").write_bytes(post.body)
        script = Path(__file__).with_name("read_otlp.py")
        done = subprocess.run(
            [str(CLIENTS), str(script), kind, str(folder / "request")], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        read.append(json.loads(done.stdout))
    return read


def attributes(of: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in of.get("attributes", [])}


@pytest.mark.skipif(
    not list(CLIENTS.parents[1].glob("lib/*/site-packages/opentelemetry/proto")),
    reason="needs PyPI's opentelemetry-proto (tools/install_deps.sh clients)",
)
def test_a_collector_of_opentelemetry_reads_logs_metrics_and_traces(
    probing: Cli, tmp_path: Path, receiver: Receiver, configured: Callable[..., None]
) -> None:
    environment = harness.clean_environment(PROBING="1", PROBING_LIBRARY=str(harness.BIN / "libprobing.so"))
    command = [harness.sys.executable, "-c", SPANS, str(harness.ROOT / "python")]
    job = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert job.stdin and job.stdout
    try:
        job.stdout.readline()
        probing("-t", job.pid, "inject")
        configured(otlp=f"{receiver.url}/otlp")
        wait_until(lambda: receiver.posts, what="metrics come")
        job.stdin.write("\n")
        job.stdin.flush()
        job.stdout.readline()
        ask_daemon("POST", "events", {"target": job.pid, "name": "request timed out", "duration": 0.2})

        def kinds() -> set[str]:
            return {post.path for post in receiver.posts}

        wanted = {"/otlp/v1/logs", "/otlp/v1/metrics", "/otlp/v1/traces"}
        wait_until(lambda: kinds() == wanted, what="all three")
        traces = as_read("traces", receiver.posts, tmp_path)
        metrics = as_read("metrics", receiver.posts, tmp_path)
        logs = as_read("logs", receiver.posts, tmp_path)
    finally:
        job.kill()
        job.communicate()
    [resource] = [
        group["resource"]
        for request in traces
        for group in request["resourceSpans"]
        if attributes(group["resource"])["process.pid"] == str(job.pid)
    ]
    assert attributes(resource)["service.name"] and "host.name" in attributes(resource)
    spans = [
        s for r in traces for g in r["resourceSpans"] for scope in g["scopeSpans"] for s in scope["spans"]
    ]
    by_id = {span["spanId"]: span for span in spans}
    names = sorted(span["name"] for span in spans)
    assert names == sorted(["run", *["request", "database", "answered"] * 3]), "each is told once"
    assert len({span["traceId"] for span in spans}) == 1, "they are one trace: the outermost has ended"
    around = {"request": "run", "database": "request", "answered": "request"}
    for span in spans:
        parent = by_id.get(span.get("parentSpanId", ""), {}).get("name")
        assert parent == around.get(span["name"])
        assert int(span["endTimeUnixNano"]) >= int(span["startTimeUnixNano"])
    assert sorted(attributes(s)["number"] for s in spans if s["name"] == "request") == ["0", "1", "2"]
    points = {
        metric["name"]: metric
        for request in metrics
        for group in request["resourceMetrics"]
        if attributes(group["resource"])["process.pid"] == str(job.pid)
        for scope in group["scopeMetrics"]
        for metric in scope["metrics"]
    }
    rss = points["probing.process.resident_memory"]
    assert rss["unit"] == "By" and rss["gauge"]["dataPoints"][0]["asDouble"] > 1e6
    assert points["probing.process.read"]["sum"]["isMonotonic"]
    records = [
        r for q in logs for g in q["resourceLogs"] for scope in g["scopeLogs"] for r in scope["logRecords"]
    ]
    [stall] = [r for r in records if attributes(r).get("probing.pids") == str(job.pid)]
    assert stall["severityText"] == "WARN" and "request timed out" in stall["body"]["stringValue"]
