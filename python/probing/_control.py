"""Asks a probe on its control socket; the protocol is in src/wire/message.h."""

import socket
import struct

TIMEOUT_SECONDS = 5


class Refused(ValueError):
    """What the probe says is wrong with a request."""


def _frame(fields):
    body = struct.pack("<I", 1)
    for key, value in fields:
        key, value = key.encode(), value.encode()
        body += struct.pack("<HI", len(key), len(value)) + key + value
    return struct.pack("<I", len(body)) + body


def _read(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise OSError("the probe closed the connection")
        data += part
    return data


def _fields(body):
    fields, at = {}, 4
    while at < len(body):
        key_size, value_size = struct.unpack_from("<HI", body, at)
        at += 6
        key = body[at : at + key_size].decode()
        fields[key] = body[at + key_size : at + key_size + value_size].decode("utf-8", "replace")
        at += key_size + value_size
    return fields


def ask(path, verb, *fields, timeout=TIMEOUT_SECONDS):
    """Sends a request of (key, value) pairs, returns the answer as a dict. No limit with timeout=None."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
        connection.sendall(_frame((("verb", verb),) + fields))
        (size,) = struct.unpack("<I", _read(connection, 4))
        answer = _fields(_read(connection, size))
    finally:
        connection.close()
    if "error" in answer:
        hint = answer.get("hint")
        raise Refused(answer["error"] + (" (%s)" % hint if hint else ""))
    return answer
