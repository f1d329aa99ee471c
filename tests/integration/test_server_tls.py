"""probingd beyond this machine: encrypted, by a certificate that is given or self-made and remembered."""

from __future__ import annotations

import hashlib
import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import harness
import pytest
from other_machine import OtherMachine, other_machine
from serving import read_all
from users import User, free_port


@dataclass(frozen=True)
class Encrypted:
    """Somebody who serves one target on an address that another machine reaches."""

    user: User
    machine: OtherMachine
    port: int
    pid: int
    link: dict[str, str]
    config: Path  # of whoever asks

    @property
    def address(self) -> str:
        return f"{self.machine.here}:{self.port}"

    def connect(self, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        if context is None:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        plain = socket.create_connection((self.machine.here, self.port), timeout=20)
        return context.wrap_socket(plain, server_hostname=self.machine.here)

    def get(self, path: str, context: ssl.SSLContext | None = None) -> bytes:
        with self.connect(context) as connection:
            connection.sendall(self.head(path, "Connection: close"))
            return read_all(connection)

    def head(self, path: str, *fields: str) -> bytes:
        lines = [f"GET {path} HTTP/1.1", f"Host: {self.address}", f"Authorization: Bearer {self.token}"]
        return "\r\n".join([*lines, *fields, "", ""]).encode()

    def from_afar(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        """`probing -t` on the other machine, by root there."""
        command = [str(self.user.bin / "probing"), "-t", self.address, *map(str, arguments)]
        return self.machine.run(*command, XDG_CONFIG_HOME=str(self.config), **environment)

    @property
    def token(self) -> str:
        return self.user("token").expect(0).stdout.strip()


@pytest.fixture
def encrypted(user: User, tmp_path: Path) -> Iterator[Encrypted]:
    with other_machine() as machine:
        port = free_port()
        target = user.probed_target()
        words = ["serve", "--listen", f"{machine.here}:{port}", "--background", "--json"]
        link = user(*words).expect(0).json
        yield Encrypted(user, machine, port, target.pid, link, tmp_path)


def fingerprint_of(certificate: bytes) -> str:
    return "sha256:" + hashlib.sha256(certificate).hexdigest()


def test_another_machine_reads_what_nobody_else_can(encrypted: Encrypted) -> None:
    assert encrypted.link["link"].startswith(f"https://{encrypted.address}/?ticket=")
    assert encrypted.get("/api/v1/health").startswith(b"HTTP/1.1 200")
    with encrypted.connect() as connection:
        certificate = connection.getpeercert(binary_form=True)
        assert connection.version() in ("TLSv1.2", "TLSv1.3")
    assert certificate and fingerprint_of(certificate) == encrypted.link["fingerprint"]
    kept = encrypted.user.folder / "server.pem"  # this user has no home
    assert kept.stat().st_mode & 0o777 == 0o600


def context_for(ciphers: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(ciphers)
    return context


def test_tls_1_2_has_only_ciphers_that_authenticate(encrypted: Encrypted) -> None:
    """CBC suites, and those without forward secrecy, are what attacks on TLS 1.2 are about."""
    for good in ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"):
        assert encrypted.get("/api/v1/health", context_for(good)).startswith(b"HTTP/1.1 200"), good
    offered = [str(each["name"]) for each in context_for("ALL:@SECLEVEL=0").get_ciphers()]
    weak = [
        name
        for name in offered
        if not name.startswith("TLS_")
        and (("GCM" not in name and "POLY1305" not in name) or not name.startswith("ECDHE"))
    ]
    assert "ECDHE-ECDSA-AES128-SHA256" in weak and "ECDHE-ECDSA-AES256-SHA" in weak
    with pytest.raises(ssl.SSLError):
        encrypted.connect(context_for(":".join(weak) + ":@SECLEVEL=0"))


def test_the_command_line_remembers_whom_it_met(encrypted: Encrypted) -> None:
    known_hosts = encrypted.config / "probing/known_hosts"
    refused = encrypted.from_afar("eval", "6 * 7")
    assert refused.returncode == 3 and "wants a token" in refused.stderr
    assert "first visit" in refused.stderr
    assert known_hosts.read_text() == f"{encrypted.address} {encrypted.link['fingerprint']}\n"
    answer = encrypted.from_afar("eval", "6 * 7", PROBING_TOKEN=encrypted.token)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "42\n", "")
    known_hosts.write_text(f"{encrypted.address} sha256:{'0' * 64}\n")
    warned = encrypted.from_afar("eval", "6 * 7", PROBING_TOKEN=encrypted.token)
    assert warned.returncode == 3 and warned.stdout == ""
    assert "another certificate" in warned.stderr and str(known_hosts) in warned.stderr


def test_a_self_made_certificate_outlives_its_daemon(encrypted: Encrypted) -> None:
    for pid in encrypted.user.daemons():
        harness.stop_process(pid)
    words = ["serve", "--listen", encrypted.address, "--background", "--json"]
    assert encrypted.user(*words).expect(0).json["fingerprint"] == encrypted.link["fingerprint"]


def test_without_encryption_another_machine_is_told_to_use_it(encrypted: Encrypted) -> None:
    curl = ["curl", "-sS", "-w", "\n%{http_code}", "-H", f"Authorization: Bearer {encrypted.token}"]
    url = f"http://{encrypted.address}/api/v1/health"
    plain = encrypted.machine.run(*curl, url).stdout
    assert plain.endswith("\n426") and "https://" in plain
    text = "import socket, sys\ns = socket.create_connection(sys.argv[1:]); s.sendall(b'list\\n')\n"
    text += "print(s.makefile().read())"
    python = ["/usr/bin/python3", "-c", text, encrypted.machine.here, str(encrypted.port)]
    assert "listen in" in encrypted.machine.run(*python).stdout
    encrypted.user("config", "probing.server.plain=true").expect(0)
    assert encrypted.machine.run(*curl, url).stdout.endswith("\n200"), "in a network of one's own it may"


def test_a_certificate_of_ones_own_is_shown(encrypted: Encrypted, tmp_path: Path) -> None:
    folder = encrypted.user.folder  # where the user can read it
    certificate, key = folder / "own.pem", folder / "own.key"
    names = ["-addext", f"subjectAltName=IP:{encrypted.machine.here}", "-subj", "/CN=node7", "-days", "2"]
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    made = encrypted.user.run(*make, *names, "-keyout", str(key), "-out", str(certificate))
    assert made.returncode == 0, made.stderr
    encrypted.user("config", f"probing.server.certificate={certificate}").expect(2)  # without its key
    settings = [f"probing.server.certificate={certificate}", f"probing.server.key={key}"]
    encrypted.user("config", *settings).expect(0)
    authority = ssl.create_default_context(cafile=str(certificate))
    assert encrypted.get("/api/v1/health", authority).startswith(b"HTTP/1.1 200")
    ca = tmp_path / "ca.pem"
    ca.write_text(certificate.read_text())
    answer = encrypted.from_afar("eval", "6 * 7", PROBING_TOKEN=encrypted.token, SSL_CERT_FILE=str(ca))
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "42\n", "")
    assert not (encrypted.config / "probing/known_hosts").exists(), "an authority vouches for it"


def test_everything_goes_through_it(encrypted: Encrypted) -> None:
    with encrypted.connect() as connection:
        connection.sendall(f"token {encrypted.token}\nselect 41 + 1 as x\nquit\n".encode())
        assert b"42" in read_all(connection)
    with encrypted.connect() as connection:
        connection.sendall(encrypted.head("/api/v1/events?interval=0.1"))
        lines = connection.makefile()
        assert next(line for line in lines if line.startswith("event: ")) == "event: targets\n"
        assert str(encrypted.pid) in lines.readline()
    rows = "SELECT i, repeat('x', 100) AS x FROM range(100000) t(i)"
    answer = encrypted.from_afar("query", "-f", "csv", rows, PROBING_TOKEN=encrypted.token)
    assert answer.stdout.count("\n") == 100_001, "twelve megabytes arrive whole"


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x00\x05hello",
        b"\x16\x03\x01\xff\xff" + b"\x00" * 70000,
        b"\x16",
        b"\x16\x03\x01\x00\x02\x02\x28",
    ],
    ids=["garbage", "too long", "one byte", "alert"],
)
def test_broken_handshakes_hurt_nobody(encrypted: Encrypted, data: bytes) -> None:
    with socket.create_connection((encrypted.machine.here, encrypted.port), timeout=20) as connection:
        connection.sendall(data)
        with suppress(OSError):  # it may have hung up already
            connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):  # but not a time-out
            read_all(connection)
    assert encrypted.get("/api/v1/health").startswith(b"HTTP/1.1 200")


def test_a_cookie_that_came_encrypted_travels_encrypted_only(encrypted: Encrypted) -> None:
    path = encrypted.link["link"].removeprefix(f"https://{encrypted.address}")
    answer = encrypted.get(path).decode()
    assert answer.startswith("HTTP/1.1 303")
    assert "; Secure" in next(line for line in answer.splitlines() if line.startswith("Set-Cookie: "))


def test_the_fingerprint_is_shown_to_who_serves(encrypted: Encrypted) -> None:
    answer = encrypted.user("serve", "--listen", encrypted.address, "--background").expect(0)
    assert json.dumps(encrypted.link["fingerprint"])[1:-1] in answer.stderr
