"""Bytes that are hardly HTTP, sent to a real server through raw sockets."""

import json

import httpx
import pytest

from serving.door import MAX_HEAD_BYTES
from serving.protocol import GuardedHttpProtocol


def status_of(received):
    return int(received.split(b" ", 2)[1])


SMUGGLED = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
NOT_HTTP = {
    "length and chunked": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    b"Content-Length: 6\r\n\r\nhello",
    "signed length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello",
    "bad chunk size": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "space before colon": b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    "bare line feeds": b"GET /health HTTP/1.1\nHost: x\n\n",
    "no http at all": b"hello there\r\n\r\n",
}


@pytest.mark.parametrize("raw", NOT_HTTP.values(), ids=NOT_HTTP.keys())
def test_bytes_that_are_not_http(served, raw):
    received = served.exchange(raw)
    assert received.count(b"HTTP/1.1 ") == 1
    assert status_of(received) == 400
    assert b"connection: close" in received.lower()
    assert (
        json.loads(received.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"
    )


@pytest.mark.parametrize("tail", [b"", b"\r\n\r\n"], ids=["unfinished", "complete"])
def test_head_that_is_too_large(served, tail):
    raw = b"GET /health HTTP/1.1\r\nHost: x\r\nX-Big: " + b"v" * (4 * MAX_HEAD_BYTES) + tail
    with served.connect() as connection:
        connection.sendall(raw)
        received = connection.recv(65536)
    assert status_of(received) == 431
    assert b"connection: close" in received.lower()


@pytest.mark.parametrize("raw", [b"", b"GET /health HTTP/1.1\r\nHost:"], ids=["nothing", "half"])
def test_head_that_never_ends(served, raw, monkeypatch):
    monkeypatch.setattr(GuardedHttpProtocol, "head_timeout_s", 0.2)
    assert served.exchange(raw) == b""


def test_large_body_gets_its_answer_while_sending(served):
    size = 40 << 20
    with served.connect() as connection:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n"
        connection.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n")
        for _ in range(size >> 20):
            connection.sendall(b" " * (1 << 20))
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert status_of(received) == 413


def test_connection_is_reused_after_an_error(served):
    with httpx.Client(base_url=served.url) as client:
        assert client.post("/v1/completions", json={}).status_code == 400
        assert client.post("/v1/completions", json={"prompt": "x"}).status_code == 200
        assert client.get("/nothing").status_code == 404
        assert client.get("/health").json()["status"] == "ok"
