"""The official client against a real server: what most users' code goes through."""

import openai
import pytest


@pytest.fixture
def client(served):
    with openai.OpenAI(base_url=served.url + "/v1", api_key="none", max_retries=0) as client:
        yield client


MESSAGES = [{"role": "user", "content": "hi"}]
ANSWER = "Größe 👩‍👩‍👧‍👦 is fine!"


def test_models(client):
    assert [model.id for model in client.models.list()] == ["fake"]
    assert client.models.retrieve("fake").owned_by == "tandem-jax"


def test_chat_whole(client):
    answer = client.chat.completions.create(model="fake", messages=MESSAGES, temperature=0)
    assert answer.choices[0].message.content == ANSWER
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.prompt_tokens_details.cached_tokens == 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert sum(answer.tandem["by_source"].values()) == answer.usage.completion_tokens


def test_chat_stream_with_usage(client):
    stream = client.chat.completions.create(
        model="fake", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ANSWER
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].tandem["rounds"] > 1
    assert last.choices == []
    assert last.usage.completion_tokens == len(ANSWER.encode()) + 1


def test_completions(client):
    whole = client.completions.create(model="fake", prompt=["a", "b"], max_tokens=4)
    assert [choice.text for choice in whole.choices] == ["Grö"] * 2
    stream = client.completions.create(model="fake", prompt="a", stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == ANSWER


def test_vllm_extensions(client):
    answer = client.chat.completions.create(
        model="fake",
        messages=MESSAGES,
        extra_body={"return_token_ids": True, "ignore_eos": True, "max_tokens": 50},
    )
    assert len(answer.choices[0].token_ids) == 50


def test_errors_are_mapped(client, llm):
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="other", messages=MESSAGES)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="fake", messages=MESSAGES, temperature=0.5)
    assert refused.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as too_long:
        client.completions.create(model="fake", prompt="x" * 5000)
    assert too_long.value.code == "context_length_exceeded"
    llm.error = RuntimeError("x")
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="fake", messages=MESSAGES)


def test_error_inside_a_stream(client, llm):
    llm.may_go.clear()
    stream = client.chat.completions.create(model="fake", messages=MESSAGES, stream=True)
    llm.error = RuntimeError("x")
    llm.may_go.set()
    with pytest.raises(openai.APIError, match="log has the cause"):
        list(stream)
