"""The front door for notebooks: generate, stream, chat, traces, losslessness, facts."""

import json

import pytest

from tandem_jax import LLM, Completion, SamplingParams
from tandem_jax.drafters import DRAFTERS as TABLE

DRAFTERS = [name for name in TABLE if name != "dflash2"]  # all that need no draft model
PROMPT = "The quick brown fox jumps over the lazy dog. The quick brown"
N = 40
PARAMS = SamplingParams(max_tokens=N, ignore_eos=True)


@pytest.fixture(scope="module")
def plain(llm):
    """Token ids of plain decoding after PROMPT."""
    ids = llm.tokenizer.encode(PROMPT)
    return [t for event in llm.stream_ids(ids, PARAMS, drafter="none") for t in event.tokens]


def test_facts_of_an_open_model(llm):
    assert isinstance(llm, LLM)
    assert (llm.vocab_size, llm.tokenizer.vocab_size, llm.max_context) == (264, 259, 512)
    assert (llm.model_name, llm.drafter_name, llm.warnings) == ("tiny", "auto", ())


def test_a_completion_is_consistent(llm, plain):
    done = llm.generate(PROMPT, PARAMS)
    assert isinstance(done, Completion)
    assert list(done.token_ids) == plain
    assert done.text == llm.tokenizer.decode(plain, skip_special=True)
    assert (done.finish_reason, done.trace) == ("length", ())
    assert done.prompt_tokens == len(PROMPT)
    assert done.completion_tokens == len(done.token_ids) == len(done.sources) == N
    assert done.tokens_per_round == (N - 1) / done.rounds >= 1.0
    assert sum(done.by_source.values()) == N
    assert set(done.by_source) <= {"target", "lookup", "mtp"}
    # The first token and each round's last one are the model's own picks.
    assert done.sources[0] == "target"
    assert done.by_source["target"] in (done.rounds, done.rounds + 1)
    assert list(done.by_source.values()) == sorted(done.by_source.values(), reverse=True)
    assert done.seconds > 0


def test_plain_decoding_has_one_token_a_round(open_llm, plain):
    done = open_llm(drafter="none").generate(PROMPT, PARAMS)
    assert list(done.token_ids) == plain
    assert (done.rounds, done.tokens_per_round) == (N - 1, 1.0)
    assert done.by_source == {"target": N}


def test_one_token_needs_no_round(llm, plain):
    done = llm.generate(PROMPT, SamplingParams(max_tokens=1))
    assert (done.token_ids, done.rounds, done.tokens_per_round) == ((plain[0],), 0, 0.0)
    assert done.finish_reason == "length"


def test_a_list_of_prompts_gives_a_list_in_order(llm):
    params = SamplingParams(max_tokens=6)
    prompts = ["one", "two two", "3"]
    together = llm.generate(prompts, params)
    alone = [llm.generate(prompt, params) for prompt in prompts]
    assert [done.token_ids for done in together] == [done.token_ids for done in alone]
    assert [done.prompt_tokens for done in together] == [3, 7, 1]
    assert len({done.token_ids for done in alone}) == 3
    assert llm.generate([], params) == []


@pytest.mark.parametrize("prompt", [PROMPT, "déjà vu: 中文 🎉", "\x00"])
def test_streamed_pieces_join_to_the_generated_text(llm, prompt):
    pieces = list(llm.stream(prompt, PARAMS))
    assert "".join(pieces) == llm.generate(prompt, PARAMS).text
    assert len(pieces) > 1
    assert all(pieces)


def test_a_prompt_of_several_pages(llm):
    """Longer than the page of 64 tokens, so prefill runs in chunks and rounds cross borders."""
    prompt = "All work and no play makes Jack a dull boy. " * 4
    report = llm.verify_lossless(prompt, PARAMS)
    assert report.lossless
    assert len(report.plain) == N
    done = llm.generate(prompt, PARAMS)
    assert (done.token_ids, done.prompt_tokens) == (report.plain, 176)


def test_chat_is_the_template_and_then_generation(llm):
    messages = [{"role": "user", "content": "Hi <|im_end|>"}]
    ids = llm.encode_chat(messages)
    end = list(llm.tokenizer.encode("<|im_end|>"))
    assert len(end) == 10  # a user's text never becomes the control token
    user = [257, *llm.tokenizer.encode("user\nHi "), *end, 258, *llm.tokenizer.encode("\n")]
    assert ids == [*user, 257, *llm.tokenizer.encode("assistant\n")]
    params = SamplingParams(max_tokens=8)
    answer = llm.chat(messages, params, trace=True)
    tokens = [t for event in llm.stream_ids(ids, params) for t in event.tokens]
    assert (list(answer.token_ids), answer.prompt_tokens) == (tokens, len(ids))
    assert len(answer.trace) == answer.rounds
    assert len(llm.encode_chat(messages, add_generation_prompt=False)) == len(user)


@pytest.mark.parametrize("drafter", sorted(DRAFTERS))
def test_traced_trees_tell_how_the_text_came_about(llm, plain, drafter):
    trees = []
    ids = llm.tokenizer.encode(PROMPT)
    seen = llm.stream_ids(ids, PARAMS, drafter=drafter, on_tree=lambda *seen: trees.append(seen))
    events = list(seen)
    assert [token for event in events for token in event.tokens] == plain
    assert len(trees) == len(events) - 1
    at = 1
    for event, (tree, path) in zip(events[1:], trees, strict=True):
        assert tree.tokens[0] == plain[at - 1]
        assert (event.rows, event.drafted) == (len(tree), tree.n_draft)
        assert path[0] == 0
        assert tree.parents[path].tolist() == [-1, *path[:-1]]
        drafted = tree.tokens[path[1:]].tolist()
        assert drafted == plain[at : at + len(drafted)]
        assert event.accepted == len(drafted)
        names = [tree.source_names[node] for node in path[1:]]
        assert list(event.sources) == [*names, "target"][: len(event.tokens)]
        at += len(event.tokens)
    assert at == N


def test_trace_of_a_completion(llm):
    done = llm.generate(PROMPT, PARAMS, trace=True)
    assert len(done.trace) == done.rounds
    assert sum(len(view.accepted) for view in done.trace) in (N - 1, N)
    first = done.trace[0]
    assert repr(first).startswith("DraftTree: ")
    assert repr(llm.tokenizer.decode(done.token_ids[:1])) in repr(first)
    assert "<svg" in first._repr_html_()


@pytest.mark.parametrize("drafter", sorted(DRAFTERS))
def test_every_drafter_is_lossless(open_llm, plain, drafter):
    report = open_llm(drafter=drafter).verify_lossless(PROMPT, PARAMS)
    assert (report.lossless, report.first_difference) == (True, None)
    assert list(report.drafted) == list(report.plain) == plain
    assert report.drafter == drafter
    assert 1 <= report.rounds <= N - 1
    expected = {"none": N - 1, "wrong": N - 1}
    assert report.rounds == expected.get(drafter, report.rounds)
    if drafter in ("half-right", "random"):
        assert report.rounds < N - 1


def test_token_ids_are_a_prompt_too(llm, plain):
    ids = llm.tokenizer.encode(PROMPT)
    assert list(llm.verify_lossless(ids, PARAMS).drafted) == plain


def test_the_answer_ends_at_a_stop_token(llm, plain):
    """The end token stays the last of the answer, wherever in a round it was found."""
    stop = plain[12]
    first = plain.index(stop)
    params = SamplingParams(max_tokens=N, stop_token_ids=(stop,), ignore_eos=True)
    for drafter in ("none", "auto", "half-right"):
        events = list(llm.stream_ids(llm.tokenizer.encode(PROMPT), params, drafter=drafter))
        assert [t for event in events for t in event.tokens] == plain[: first + 1]
        assert [event.finish_reason for event in events[:-1]] == [None] * (len(events) - 1)
        assert events[-1].finish_reason == "stop"


def test_the_models_own_end_token_stops_unless_ignored(write_model, open_llm, tmp_path, plain):
    made = write_model(tmp_path / "ends", eos_token_id=plain[3])
    llm = open_llm(made)
    end = plain.index(plain[3])
    stopped = llm.generate(PROMPT, SamplingParams(max_tokens=N))
    assert (list(stopped.token_ids), stopped.finish_reason) == (plain[: end + 1], "stop")
    assert list(llm.generate(PROMPT, PARAMS).token_ids) == plain


def test_without_a_limit_the_answer_fills_the_context(llm):
    prompt = "x" * 480
    done = llm.generate(prompt, SamplingParams(ignore_eos=True))
    assert (done.prompt_tokens, done.completion_tokens, done.finish_reason) == (480, 32, "length")
    assert llm.generate("x" * 511, PARAMS).completion_tokens == 1


def test_a_closed_stream_frees_the_engine(llm, plain):
    ids = llm.tokenizer.encode(PROMPT)
    for n_rounds in (0, 1, 3):
        stream = llm.stream_ids(ids, PARAMS)
        for _ in range(n_rounds + 1):
            next(stream)
        with pytest.raises(RuntimeError, match="no free slot"):
            next(llm.stream_ids(ids, PARAMS))
        stream.close()
        assert list(llm.generate(PROMPT, PARAMS).token_ids) == plain


def test_describe_is_plain_data_with_reasons(llm):
    facts = json.loads(json.dumps(llm.describe()))
    assert (facts["platform"], facts["exactness_class"]) == ("cpu", "bitwise")
    assert (facts["model"], facts["drafter"], facts["dtype"]) == ("tiny", "auto", "float32")
    assert facts["family"] == "Qwen3_5ForCausalLM"
    assert facts["layers"] == {"delta_net": 1, "attention": 1}
    assert facts["weight_bytes"] == 4 * facts["parameters"] > 400_000
    assert (facts["mtp_head"], facts["tied_head"], facts["max_context"]) == (True, False, 512)
    assert set(facts["ops"]) == {"delta_scan", "tree_attention"}
    scan = facts["ops"]["delta_scan"]
    assert scan["implementation"] == "walk"
    assert set(scan["passed_over"]) == {"wy", "sequential"}
    assert all(scan["passed_over"].values())
    assert sorted(facts["drafters"]) == sorted(DRAFTERS)
    assert facts["warnings"] == []


def test_a_model_without_the_head_says_so(write_model, open_llm, tmp_path, plain, caplog):
    made = write_model(tmp_path / "headless", mtp=False, mtp_num_hidden_layers=1)
    llm = open_llm(made)
    facts = llm.describe()
    assert facts["mtp_head"] is False
    assert "mtp" not in facts["drafters"]
    announced, unused = facts["warnings"]
    assert "announces an MTP head" in announced
    assert "only the lookup drafter" in unused
    told = [line for line in caplog.messages if not line.startswith("no prices for this device")]
    assert told == [f"headless: {line}" for line in llm.warnings]
    assert list(llm.generate(PROMPT, PARAMS).token_ids) == plain


def test_bfloat16_is_lossless_too(open_llm, plain):
    llm = open_llm(dtype="bfloat16", drafter="half-right")
    facts = llm.describe()
    assert (facts["dtype"], facts["exactness_class"]) == ("bfloat16", "bitwise")
    assert facts["weight_bytes"] < 2.1 * facts["parameters"]
    report = llm.verify_lossless(PROMPT, PARAMS)
    assert report.lossless
    assert report.rounds < N - 1
    assert report.plain[0] == plain[0]


def test_progress_names_its_phases(open_llm):
    calls = []
    llm = open_llm(warmup=True, progress=lambda *call: calls.append(call))
    phases = [phase for phase, _, _ in calls]
    assert phases == ["load"] * (len(calls) - 2) + ["compile"] * 2
    assert calls[-3][1:] == (43, 43)  # every tensor
    assert calls[-2:] == [("compile", 1, 2), ("compile", 2, 2)]
    del calls[:]
    llm.generate("x" * 100, SamplingParams(max_tokens=1))
    assert calls == [("prefill", 64, 100), ("prefill", 100, 100)]
