"""The server with the shipped model: what arrives over HTTP is what the engine writes."""

import openai
import pytest

from tandem_jax import LLM, SamplingParams

MESSAGES = [{"role": "user", "content": "What does the noun \"lantern\" mean?"}]


@pytest.fixture(scope="module")
def llm():
    """A second copy in this process, for what the answer must be."""
    return LLM("nano", max_context=1024, warmup=False)


@pytest.fixture(scope="module")
def client(serve_llm):
    with (
        serve_llm(lambda: LLM("nano", max_context=1024, warmup=False)) as served,
        openai.OpenAI(base_url=served.url + "/v1", api_key="none", max_retries=0) as client,
    ):
        yield client


def test_chat_equals_the_library(client, llm):
    expected = llm.chat(MESSAGES, SamplingParams(max_tokens=32), enable_thinking=False)
    fields = {
        "model": "nano",
        "messages": MESSAGES,
        "max_tokens": 32,
        "extra_body": {"chat_template_kwargs": {"enable_thinking": False}},
    }
    whole = client.chat.completions.create(**fields)
    assert whole.choices[0].message.content == expected.text
    assert whole.choices[0].finish_reason == expected.finish_reason
    assert whole.usage.completion_tokens == expected.completion_tokens
    assert whole.usage.prompt_tokens == expected.prompt_tokens
    streamed = client.chat.completions.create(**fields, stream=True)
    pieces = [c.choices[0].delta.content or "" for c in streamed if c.choices]
    assert "".join(pieces) == expected.text


def test_completion_equals_plain_decoding(client, llm):
    prompt = "def add(a, b):\n    return a + b\n\n\ndef add(a"
    params = SamplingParams(max_tokens=24, ignore_eos=True)
    plain = llm.verify_lossless(prompt, params)
    answer = client.completions.create(
        model="nano", prompt=prompt, max_tokens=24, extra_body={"ignore_eos": True}
    )
    assert plain.lossless
    assert answer.choices[0].text == llm.tokenizer.decode(plain.plain, skip_special=True)
    assert answer.tandem["rounds"] < 23


def test_a_prompt_beyond_the_context_is_a_400(client):
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="nano", prompt=[65] * 1024, max_tokens=1)
    assert error.value.code == "context_length_exceeded"
    assert client.completions.create(model="nano", prompt="x", max_tokens=1).usage.total_tokens == 2
