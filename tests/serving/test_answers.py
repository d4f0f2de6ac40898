"""Shapes and contents of answers, streamed and whole."""

import pytest

ANSWER = "Größe 👩‍👩‍👧‍👦 is fine!"
SCRIPT = [*ANSWER.encode(), 258]


def text_of(chunk):
    choice = chunk["choices"][0] if chunk["choices"] else {}
    return choice.get("text") or choice.get("delta", {}).get("content") or ""


def test_whole_chat(client, llm):
    answer = client.chat(seed=5).json()
    assert answer["id"].startswith("chatcmpl-")
    assert (answer["object"], answer["model"]) == ("chat.completion", "fake")
    assert answer["system_fingerprint"].startswith("fp_")
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": ANSWER, "refusal": None}
    assert choice["finish_reason"] == "stop"
    prompt = llm.tokenizer.decode(llm.seen[0][0])
    assert prompt == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    usage = answer["usage"]
    assert usage["prompt_tokens"] == len(llm.seen[0][0])
    assert usage["completion_tokens"] == len(SCRIPT)
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens_details"] == {"cached_tokens": 0}


def test_whole_completion(client):
    answer = client.complete().json()
    assert answer["id"].startswith("cmpl-")
    assert answer["object"] == "text_completion"
    (choice,) = answer["choices"]
    assert (choice["text"], choice["finish_reason"]) == (ANSWER, "stop")


@pytest.mark.parametrize("fields", [{}, {"max_tokens": 5}, {"max_tokens": 1}, {"ignore_eos": True}])
@pytest.mark.parametrize("route", ["chat", "complete"])
def test_streamed_equals_whole(client, events, route, fields):
    fields = {"return_token_ids": True, "max_tokens": 90} | fields
    whole = getattr(client, route)(**fields).json()
    stream = getattr(client, route)(stream=True, stream_options={"include_usage": True}, **fields)
    assert stream.headers["content-type"] == "text/event-stream"
    assert stream.headers["cache-control"] == "no-store"
    *chunks, last, done = events(stream.content)
    assert done == "[DONE]"
    wanted = whole["choices"][0]
    assert "".join(map(text_of, chunks)) == (wanted.get("text") or wanted["message"]["content"])
    ids = [token for chunk in chunks for token in chunk["choices"][0].get("token_ids", [])]
    assert ids == wanted["token_ids"]
    assert chunks[0]["choices"][0]["prompt_token_ids"] == wanted["prompt_token_ids"]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + [wanted["finish_reason"]]
    assert (last["choices"], last["usage"]) == ([], whole["usage"])
    assert chunks[-1]["tandem"] == whole["tandem"]
    assert len({chunk["id"] for chunk in [*chunks, last]}) == 1


def test_first_delta_has_the_role_and_chunks_end_on_whole_characters(client, events):
    chunks = events(client.chat(stream=True).content)[:-1]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all("\ufffd" not in text_of(chunk) for chunk in chunks)
    assert all(text_of(chunk) for chunk in chunks[1:-1])
    assert chunks[-1]["choices"][0]["delta"] == {}
    assert all("usage" not in chunk for chunk in chunks)


def test_usage_in_streams(client, events):
    asked = {"stream": True, "max_tokens": 6}
    plain = events(client.chat(**asked, stream_options={"include_usage": False}).content)
    assert all("usage" not in chunk for chunk in plain[:-1])
    some = events(client.chat(**asked, stream_options={"include_usage": True}).content)
    assert [chunk["usage"] for chunk in some[:-2]] == [None] * (len(some) - 2)
    options = {"include_usage": True, "continuous_usage_stats": True}
    every = events(client.chat(**asked, stream_options=options).content)
    counts = [chunk["usage"]["completion_tokens"] for chunk in every[:-1]]
    assert counts == sorted(counts)
    assert counts[-1] == 6


@pytest.mark.parametrize("limit", range(1, 21))
def test_exactly_max_tokens(client, limit):
    answer = client.complete(max_tokens=limit, return_token_ids=True).json()
    assert answer["choices"][0]["token_ids"] == SCRIPT[:limit]
    assert answer["usage"]["completion_tokens"] == limit
    assert answer["choices"][0]["finish_reason"] == "length"


def test_a_character_cut_by_the_limit_is_replaced(client):
    assert client.complete(max_tokens=3).json()["choices"][0]["text"] == "Gr\ufffd"


def test_the_newer_limit_wins(client):
    answer = client.chat(max_tokens=9, max_completion_tokens=2).json()
    assert answer["usage"]["completion_tokens"] == 2


def test_stop_token_ids_end_the_answer(client):
    answer = client.complete(stop_token_ids=[ord(" ")]).json()
    assert answer["choices"][0]["text"] == "Größe "
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_special_tokens_are_hidden_or_shown(client):
    fields = {"ignore_eos": True, "max_tokens": len(SCRIPT) + 2}
    hidden = client.complete(**fields).json()["choices"][0]["text"]
    shown = client.complete(**fields, skip_special_tokens=False).json()["choices"][0]["text"]
    assert hidden == ANSWER + "Gr"
    assert shown == ANSWER + "<|im_end|>Gr"


def test_tandem_report_counts_committed_tokens(client):
    answer = client.complete(max_tokens=8).json()  # rounds of 1 (prefill), 3, 1, 3 of 4
    assert answer["tandem"] == {
        "rounds": 3,
        "tokens_per_round": round(7 / 3, 4),
        "by_source": {"lookup": 4, "target": 4},
        "rows": {"5": 3},
    }


def test_several_prompts_are_all_answered(client, llm, events):
    prompts = ["one", "three"]
    answer = client.complete(prompts, return_token_ids=True).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert [choice["text"] for choice in answer["choices"]] == [ANSWER, ANSWER]
    assert answer["choices"][1]["prompt_token_ids"] == list(b"three")
    assert answer["usage"]["prompt_tokens"] == 8
    assert answer["usage"]["completion_tokens"] == 2 * len(SCRIPT)
    chunks = events(client.complete(prompts, stream=True).content)[:-1]
    indices = [chunk["choices"][0]["index"] for chunk in chunks]
    assert indices == sorted(indices)
    assert ["tandem" in chunk for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1]["tandem"] == answer["tandem"]


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ([104, 105], [[104, 105]]),
        ([[104], [105, 106]], [[104], [105, 106]]),
        ("<|im_end|>", [list(b"<|im_end|>")]),
        ("\x00\x07ü", [[0, 7, *"ü".encode()]]),
    ],
)
def test_forms_of_prompts(client, llm, prompt, ids):
    assert client.complete(prompt, max_tokens=1).status_code == 200
    assert [seen for seen, _ in llm.seen] == ids


def test_control_tokens_in_prompts_only_on_wish(client, llm):
    client.complete("a<|im_end|>", parse_special=True, max_tokens=1)
    assert llm.seen[0][0] == [97, 258]


def test_user_text_never_becomes_a_control_token(client, llm):
    client.chat("<|im_end|>{{ 7 * 7 }}", max_tokens=1)
    ids = llm.seen[0][0]
    assert ids.count(258) == 1
    assert "<|im_end|>{{ 7 * 7 }}<|im_end|>" in llm.tokenizer.decode(ids)


def test_template_variables(client, llm):
    client.chat(chat_template_kwargs={"enable_thinking": False}, max_tokens=1)
    client.chat(reasoning_effort="none", max_tokens=1)
    client.chat(reasoning_effort="high", max_tokens=1)
    ends = [llm.tokenizer.decode(ids).rpartition("assistant\n")[2] for ids, _ in llm.seen]
    assert ends == ["<think>\n\n</think>", "<think>\n\n</think>", "xhigh"]


def test_models(client):
    listed = client.get("/v1/models").json()
    (model,) = listed["data"]
    assert (model["id"], model["object"], model["max_model_len"]) == ("fake", "model", 4096)
    assert client.get("/v1/models/fake").json() == model
    for name in ("other", "../../etc/passwd", "%2e%2e", "a/b", "x" * 10000):
        answer = client.get(f"/v1/models/{name}")
        assert answer.status_code == 404


def test_health(client, worker):
    answer = client.get("/health")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "running": 0, "waiting": 0}
    worker.close()
    assert client.get("/health").status_code == 503
    refused = client.chat()
    assert refused.status_code == 503
    assert refused.json()["error"]["type"] == "server_error"
