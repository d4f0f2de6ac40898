"""A real server and raw sockets: clients that leave, wait, or read too slowly."""

import json
import socket
import time

import httpx
import pytest

PATIENCE_S = 20.0
ENDLESS = {"ignore_eos": True, "max_tokens": 4000}


def until(condition):
    """Wait for another thread's effect; the time it takes is not what is tested."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)


def request_bytes(path, body, *headers):
    content = json.dumps(body).encode()
    head = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json"]
    head += [f"Content-Length: {len(content)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


def completion(**fields):
    return request_bytes("/v1/completions", {"prompt": "hi"} | fields)


def read_all(connection):
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    return received


def read_until(connection, marker):
    received = b""
    while marker not in received:
        received += connection.recv(4096)
    return received


def status_of(received):
    return int(received.split(b" ", 2)[1])


def has_let_go(served):
    """No request is being answered any more; the engine may still be inside its round."""
    return not served.server.server_state.tasks


def is_idle(served, llm):
    return llm.active == 0 and served.worker.counts == {"running": 0, "waiting": 0}


def answers_as_before(served, llm):
    text = httpx.post(served.url + "/v1/completions", json={"prompt": "x"}).json()["choices"][0]
    assert text["text"].encode() == bytes(llm.script[:-1])


def test_client_leaves_in_the_middle_of_a_stream(served, llm):
    llm.hold_at = 5
    llm.may_go.clear()
    with served.connect() as connection:
        connection.sendall(completion(stream=True, **ENDLESS))
        read_until(connection, b"data: ")
        until(lambda: llm.rounds == 5)
    until(lambda: has_let_go(served))
    llm.may_go.set()
    until(lambda: is_idle(served, llm))
    assert llm.freed == 1
    assert llm.rounds == 6  # the round it was in, not the 1,600 it was asked for
    answers_as_before(served, llm)


@pytest.mark.parametrize("is_streamed", [True, False])
def test_client_leaves_before_the_first_token(served, llm, is_streamed):
    llm.may_go.clear()
    with served.connect() as connection:
        connection.sendall(completion(stream=is_streamed, **ENDLESS))
        until(lambda: llm.active == 1)
    until(lambda: has_let_go(served))
    llm.may_go.set()
    until(lambda: is_idle(served, llm))
    assert (llm.freed, llm.rounds) == (1, 1)
    answers_as_before(served, llm)


def test_client_leaves_in_the_middle_of_a_whole_answer(served, llm):
    """Frameworks cancel only streams by themselves (F2)."""
    llm.hold_at = 5
    llm.may_go.clear()
    with served.connect() as connection:
        connection.sendall(completion(**ENDLESS))
        until(lambda: llm.rounds == 5)
    until(lambda: has_let_go(served))
    llm.may_go.set()
    until(lambda: is_idle(served, llm))
    assert (llm.freed, llm.rounds) == (1, 6)


@pytest.mark.parametrize("is_streamed", [True, False])
def test_client_leaves_during_prefill(served, llm, is_streamed):
    llm.prefill_chunks, llm.hold_at, llm.progress = 100, 5, served.worker.follow
    llm.may_go.clear()
    with served.connect() as connection:
        connection.sendall(completion(stream=is_streamed, max_tokens=3))
        until(lambda: llm.chunks == 5)
    until(lambda: has_let_go(served))
    llm.may_go.set()
    until(lambda: is_idle(served, llm))
    assert (llm.freed, llm.chunks, llm.rounds) == (1, 6, 0)
    answers_as_before(served, llm)


@pytest.mark.parametrize("is_streamed", [True, False])
def test_client_leaves_the_queue(served, llm, is_streamed):
    llm.may_go.clear()
    with served.connect() as first:
        first.sendall(completion(max_tokens=3))
        until(lambda: llm.active == 1)
        with served.connect() as second:
            second.sendall(completion(stream=is_streamed, max_tokens=3))
            until(lambda: served.worker.counts["waiting"] == 1)
        until(lambda: served.worker.counts["waiting"] == 0)
        llm.may_go.set()
        assert status_of(first.recv(4096)) == 200
    assert len(llm.seen) == 1  # the engine never heard of the second


def test_many_clients_hang_up_at_random_points(served, llm):
    for k in range(60):
        with served.connect() as connection:
            raw = completion(stream=bool(k % 2), **ENDLESS)
            if k % 3 == 0:
                connection.sendall(raw[: len(raw) - 1 - k])
                continue
            connection.sendall(raw)
            if k % 4 == 1:
                connection.recv(100)
    # The last of them may still lie unread in the server's backlog, and fill its queue when read.
    until(lambda: httpx.post(served.url + "/v1/completions", json={"prompt": "x"}).is_success)
    until(lambda: is_idle(served, llm) and has_let_go(served))
    assert llm.freed == len(llm.seen)
    answers_as_before(served, llm)


def test_client_with_a_pipelined_request_leaves(served, llm):
    """The running request must be cancelled, not only the one behind it."""
    llm.may_go.clear()
    with served.connect() as connection:
        connection.sendall(completion(**ENDLESS) + completion(**ENDLESS))
        until(lambda: llm.active == 1)
    until(lambda: has_let_go(served))
    llm.may_go.set()
    until(lambda: is_idle(served, llm))
    assert (len(llm.seen), llm.rounds) == (1, 1)


def test_queue_is_bounded_and_fair(served, llm):
    llm.may_go.clear()
    connections = [served.connect() for _ in range(4)]
    for k, connection in enumerate(connections):
        connection.sendall(completion(prompt=str(k), max_tokens=2))
        until(lambda k=k: llm.active == 1 and served.worker.counts["waiting"] == min(k, 2))
    refused = connections[3].recv(4096)
    assert status_of(refused) == 429
    assert b"retry-after: 1" in refused.lower()
    assert b'"rate_limit_error"' in refused
    llm.may_go.set()
    assert [status_of(connection.recv(4096)) for connection in connections[:3]] == [200] * 3
    assert [prompt for prompt, _ in llm.seen] == [[ord(str(k))] for k in range(3)]
    for connection in connections:
        connection.close()


def test_reader_that_never_reads_does_not_stop_the_engine(served, llm):
    """The engine runs to the end of the slow answer and serves the next client meanwhile."""
    with served.connect() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.sendall(completion(stream=True, **ENDLESS))
        until(lambda: llm.freed == 1)
        answers_as_before(served, llm)


def test_stuck_reader_is_dropped(serve_llm, fake_llm):
    llm = fake_llm("x" * 2000, max_context=10**6)
    with serve_llm(lambda: llm, send_timeout_s=0.3) as served, served.connect() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        stuck.sendall(completion(stream=True, ignore_eos=True, max_tokens=900_000))
        until(lambda: is_idle(served, llm) and llm.freed == 1)
        assert llm.rounds < 360_000  # cancelled, not finished


def test_keep_alive_comments_during_a_long_prefill(served, llm, events):
    llm.may_go.clear()
    with served.connect() as connection:
        connection.sendall(completion(stream=True, max_tokens=2))
        received = b""
        while received.count(b": keep-alive\n\n") < 2:
            received += connection.recv(4096)
        assert status_of(received) == 200
        llm.may_go.set()
        while b"[DONE]" not in received:
            received += connection.recv(4096)


def test_failure_inside_a_stream_is_an_error_event(served, llm, events):
    llm.may_go.clear()
    with httpx.stream(
        "POST", served.url + "/v1/completions", json={"prompt": "x", "stream": True}
    ) as answer:
        assert answer.status_code == 200  # decided by the first comment, before the failure
        llm.error = RuntimeError("secret cause")
        llm.may_go.set()
        raw = b"".join(answer.iter_bytes())
    error, done = events(raw)
    assert error["error"]["type"] == "server_error"
    assert done == "[DONE]"
    assert b"secret" not in raw
    answers_as_before(served, llm)


def test_shutdown_tells_live_streams(serve_llm, fake_llm, events):
    llm = fake_llm()
    llm.hold_at = 5
    llm.may_go.clear()
    with serve_llm(lambda: llm, shutdown_grace_s=1) as served, served.connect() as connection:
        connection.sendall(completion(stream=True, **ENDLESS))
        received = read_until(connection, b"data: ")
        served.server.should_exit = True
        received += read_all(connection)
        llm.may_go.set()
    assert served.worker.state == "stopped"
    assert llm.active == 0
    assert b'"the server is stopping"' in received
    assert b"data: [DONE]\n\n" in received
