"""What a client may send by mistake or on purpose: one envelope for all, and nothing echoed."""

import json
import logging

import pytest

from tandem_jax.errors import RequestError

JSON = {"content-type": "application/json"}
PATH = "/v1/chat/completions"
SECRET = "s3cr3t-prompt"


def error_of(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    error = answer.json()["error"]
    assert error.keys() >= {"message", "type", "param", "code"}
    return error


def body(**fields):
    return {"messages": [{"role": "user", "content": SECRET}], "max_tokens": 1} | fields


BROKEN = {
    "empty": b"",
    "truncated": b'{"messages": [{"role"',
    "not an object": b"[1]",
    "not utf-8": b'{"prompt": "\xff\xfe"}',
    "nested": b'{"messages": ' + b"[" * 20000 + b"]" * 20000 + b"}",
    "long integer": b'{"max_tokens": ' + b"9" * 5000 + b"}",
    "trailing": b'{"messages": []} x',
}


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN.keys())
def test_broken_bodies(client, raw):
    error = error_of(client.request("POST", PATH, content=raw, headers=JSON), 400)
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize(
    ("field", "value"),
    [("temperature", "%s"), ("max_tokens", "%s"), ("metadata", '{"a": [1, %s]}')],
)
def test_numbers_that_are_not_finite(client, number, field, value):
    raw = json.dumps(body())[:-1] + f', "{field}": {value % number}}}'
    error = error_of(client.request("POST", PATH, content=raw, headers=JSON), 400)
    assert error["param"] == field


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_wrong_content_type(client, kind):
    answer = client.request(
        "POST", PATH, content=json.dumps(body()), headers={"content-type": kind}
    )
    assert "application/json" in error_of(answer, 400)["message"]


def test_content_type_may_have_parameters(client):
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    answer = client.request("POST", PATH, content=json.dumps(body()), headers=headers)
    assert answer.status_code == 200


def test_body_limit(client):
    small = body(user="x" * ((1 << 16) - 500))
    assert client.post(PATH, small).status_code == 200
    large = body(user="x" * (1 << 16))
    error = error_of(client.post(PATH, large), 413)
    assert error["type"] == "request_too_large"


def test_body_limit_without_a_length(client):
    async def chunks():
        for _ in range(20):
            yield b" " * 8192

    answer = client.request("POST", PATH, content=chunks(), headers=JSON)
    assert "content-length" not in answer.request.headers
    error_of(answer, 413)


def test_lone_surrogate(client):
    raw = json.dumps(body(messages=[{"role": "user", "content": "\ud800"}]))
    error = error_of(client.request("POST", PATH, content=raw, headers=JSON), 400)
    assert error["param"] == "messages"
    raw = json.dumps({"prompt": "\ud800"})
    error = error_of(client.request("POST", "/v1/completions", content=raw, headers=JSON), 400)
    assert error["param"] == "prompt"


def test_doubled_keys_last_wins(client, llm):
    raw = '{"prompt": "a", "prompt": "b", "max_tokens": 1}'
    assert client.request("POST", "/v1/completions", content=raw, headers=JSON).status_code == 200
    assert llm.seen[0][0] == [98]


@pytest.mark.parametrize(("prompt_tokens", "status"), [(4095, 200), (4096, 400), (20000, 400)])
def test_context_limit(client, llm, prompt_tokens, status):
    answer = client.complete([7] * prompt_tokens)
    assert answer.status_code == status
    if status == 200:
        assert answer.json()["usage"]["completion_tokens"] == 1
        assert answer.json()["choices"][0]["finish_reason"] == "length"
        return
    error = error_of(answer, 400)
    assert (error["code"], error["param"]) == ("context_length_exceeded", "prompt")
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (prompt_tokens, 4096)
    assert llm.seen == []


def test_context_limit_in_chat_names_the_messages(client):
    error = error_of(client.chat("x" * 5000), 400)
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")


def test_too_many_prompts(client):
    assert error_of(client.complete(["x"] * 129), 400)["param"] == "prompt"


def test_errors_never_echo_the_input(client):
    for fields in (
        {"max_tokens": SECRET},
        {"tools": SECRET},
        {"model": SECRET},
        {"stream": SECRET},
    ):
        answer = client.post(PATH, body(**fields))
        assert answer.status_code in {400, 404}
        assert SECRET not in answer.text


def test_unknown_routes_and_methods(client):
    error = error_of(client.get("/v1/nothing"), 404)
    assert error["type"] == "not_found_error"
    error_of(client.post("/v1/embeddings", {"input": "x"}), 404)
    error_of(client.get("/v1/chat/completions/"), 404)
    answer = client.get(PATH)
    error_of(answer, 405)
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("wanted", "is_kept"),
    [("abc-123_X.9:z", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ("ü", False)],
)
def test_request_ids(client, wanted, is_kept):
    answer = client.get("/health", headers={"x-request-id": wanted.encode()})
    assert (answer.headers["x-request-id"] == wanted) == is_kept


def test_too_large_heads(client):
    many = [(f"x-{k}", "v") for k in range(300)]
    error_of(client.request("GET", "/health", headers=many), 431)
    error_of(client.get("/health", headers={"x-big": "v" * (1 << 17)}), 431)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_engine_failure_is_500_and_the_server_goes_on(client, llm, caplog, is_streamed):
    llm.error = RuntimeError(f"device lost at 0x7f while reading {SECRET}")
    with caplog.at_level(logging.CRITICAL):
        error = error_of(client.chat(stream=is_streamed), 500)
    assert error["type"] == "server_error"
    assert SECRET not in error["message"]
    assert client.chat().status_code == 200
    assert (llm.active, llm.freed) == (0, 2)


def test_refusals_of_the_engine_itself_are_400(client, llm):
    llm.error = RequestError("no room", param="prompt", hint="wait")
    error = error_of(client.chat(), 400)
    assert (error["param"], error["message"]) == ("prompt", "no room (wait)")
