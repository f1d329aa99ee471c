"""ClickHouse servers of a test's own: Debian's, in a folder, on free ports."""

from __future__ import annotations

import http.client
import signal
import subprocess
import urllib.parse
from pathlib import Path

from harness import wait_until
from users import free_port

CONFIG = """<yandex>
<logger><level>warning</level><log>{folder}/log</log><errorlog>{folder}/errors</errorlog></logger>
<listen_host>127.0.0.1</listen_host><http_port>{http}</http_port><tcp_port>{tcp}</tcp_port>
<path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path>
<mark_cache_size>67108864</mark_cache_size>
<users_config>{folder}/users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<remote_servers><fleet>{shards}</fleet></remote_servers>
</yandex>"""
SHARD = "<shard><replica><host>127.0.0.1</host><port>{tcp}</port></replica></shard>"
USERS = """<yandex><profiles><default/></profiles><quotas><default/></quotas><users>
<default><password></password><networks><ip>127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota></default>
<writer><password>secret word</password><networks><ip>127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota></writer>
</users></yandex>"""


class Server:
    """One server; `shards` are the TCP ports of all servers of the cluster `fleet`."""

    def __init__(self, folder: Path, http: int, tcp: int, shards: list[int]) -> None:
        self.folder, self.http = folder, http
        folder.mkdir(parents=True)
        text = CONFIG.format(
            folder=folder, http=http, tcp=tcp, shards="".join(SHARD.format(tcp=each) for each in shards)
        )
        (folder / "config.xml").write_text(text)
        (folder / "users.xml").write_text(USERS)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"clickhouse://127.0.0.1:{self.http}/fleet"

    def start(self) -> Server:
        self.process = subprocess.Popen(
            ["clickhouse-server", f"--config-file={self.folder}/config.xml"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
        )
        wait_until(self.answers, 60, f"{self.folder} answers: {self.errors()}")
        return self

    def errors(self) -> str:
        log = self.folder / "errors"
        return log.read_text()[-1000:] if log.exists() else ""

    def answers(self) -> bool:
        try:
            return self.ask("SELECT 1") == "1\n"
        except OSError:
            return False

    def ask(self, sql: str, **settings: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=60)
        try:
            connection.request("POST", "/?" + urllib.parse.urlencode(settings), sql.encode())
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        assert answer.status == 200, text
        return text

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None


def servers(folder: Path, count: int) -> list[Server]:
    """Not started."""
    tcp = [free_port() for _ in range(count)]
    return [Server(folder / f"server{i}", free_port(), tcp[i], tcp) for i in range(count)]
