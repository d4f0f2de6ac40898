"""What a user can get wrong, each answered with one line and a hint, most before any loading."""

import json
import shutil

import pytest

from tandem_jax import LLM, SamplingParams, api
from tandem_jax.errors import (
    CheckpointError,
    ConfigError,
    ContextLengthError,
    EmptyPromptError,
    RequestError,
    TandemError,
)

ONE = SamplingParams(max_tokens=1)


@pytest.fixture
def copy(directory, tmp_path):
    """A copy of the sound checkpoint, to be damaged."""
    return shutil.copytree(directory, tmp_path / "copy")


@pytest.fixture
def nothing_loads(monkeypatch):
    """Loading weights, the first use of device memory, fails the test."""

    def loaded(*_):
        raise AssertionError("the weights were loaded")

    monkeypatch.setattr(api, "load_model", loaded)


@pytest.mark.usefixtures("nothing_loads")
class TestOpening:
    """All of these are told before the weights are read."""

    def refused(self, kind, *args, **options):
        with pytest.raises(TandemError) as caught:
            LLM(*args, **options)
        assert type(caught.value) is kind
        assert "\n" not in str(caught.value)
        return caught.value

    def test_a_missing_directory(self, tmp_path):
        error = self.refused(CheckpointError, tmp_path / "absent")
        assert "absent: does not exist" in str(error)
        assert error.hint

    def test_a_file(self, copy):
        error = self.refused(CheckpointError, copy / "config.json")
        assert "not a directory" in str(error)

    def test_an_unknown_drafter(self, directory):
        error = self.refused(ConfigError, directory, drafter="psychic")
        assert "'psychic'" in str(error)
        for name in ("none", "lookup", "mtp", "auto"):
            assert name in error.hint

    def test_the_drafter_is_looked_at_before_the_files(self, tmp_path):
        self.refused(ConfigError, tmp_path / "absent", drafter="psychic")

    def test_a_missing_tokenizer(self, copy):
        (copy / "tokenizer.json").unlink()
        error = self.refused(CheckpointError, copy)
        assert "no tokenizer.json" in str(error)
        assert error.hint

    @pytest.mark.parametrize("text", ["", "{}", '{"model": {"type": "WordPiece"}}'])
    def test_a_damaged_tokenizer(self, copy, text):
        (copy / "tokenizer.json").write_text(text)
        error = self.refused(CheckpointError, copy)
        assert "tokenizer.json" in str(error)
        assert error.hint

    def test_a_tokenizer_larger_than_the_model(self, write_model, tmp_path):
        made = write_model(tmp_path / "short", vocab_size=258)
        error = self.refused(ConfigError, made)
        assert "259 ids" in str(error)
        assert "258 rows" in str(error)
        assert "same checkpoint" in error.hint

    @pytest.mark.parametrize("asked", [513, 10**9])
    def test_more_context_than_the_model_has(self, directory, asked):
        error = self.refused(ConfigError, directory, max_context=asked)
        assert str(asked) in str(error)
        assert "512 positions" in str(error)

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            ({"max_context": 1}, "max_context"),
            ({"max_context": 0}, "max_context"),
            ({"max_context": -5}, "max_context"),
            ({"dtype": "float8"}, "'float8'"),
            ({"node_budget": 0}, "node_budget"),
            ({"page_tokens": 100}, "page_tokens"),
            ({"row_buckets": (8, 64)}, "32 rows"),
            ({"prefill_buckets": (100,)}, "prefill_buckets"),
            ({"slots": 0}, "slots"),
        ],
    )
    def test_an_option_out_of_range(self, directory, options, named):
        assert named in str(self.refused(ConfigError, directory, **options))

    @pytest.mark.parametrize("value", ["<|im_end|>", [1.5], [-1]])
    def test_end_tokens_that_are_no_ids(self, copy, value):
        file = copy / "generation_config.json"
        file.write_text(json.dumps({"eos_token_id": value}))
        error = self.refused(CheckpointError, copy)
        assert "eos_token_id" in str(error)
        assert error.hint

    def test_a_damaged_template(self, copy):
        (copy / "chat_template.jinja").write_text("{% for %}")
        error = self.refused(CheckpointError, copy)
        assert "template is damaged" in str(error)
        assert "chat_template.jinja" in error.hint

    def test_the_mtp_drafter_needs_the_head(self, write_model, tmp_path):
        made = write_model(tmp_path / "headless", mtp=False)
        error = self.refused(ConfigError, made, drafter="mtp")
        assert "needs an MTP head" in str(error)
        assert "lookup" in error.hint

    def test_an_unknown_config_key(self, copy):
        config = json.loads((copy / "config.json").read_text())
        (copy / "config.json").write_text(json.dumps({**config, "n_experts": 8}))
        assert "n_experts" in str(self.refused(ConfigError, copy))


def refused(llm, prompt, params=ONE, kind=RequestError):
    """The error of a request; afterwards the engine must be free."""
    with pytest.raises(RequestError) as caught:
        llm.generate(prompt, params)
    assert type(caught.value) is kind
    assert llm.generate("x", ONE).completion_tokens == 1
    return caught.value


def test_an_empty_prompt(llm):
    error = refused(llm, "", kind=EmptyPromptError)
    assert (error.param, str(error)) == ("prompt", "the prompt is empty")
    assert error.hint
    with pytest.raises(EmptyPromptError):
        next(llm.stream("", ONE))
    with pytest.raises(EmptyPromptError):
        next(llm.stream_ids([], ONE))
    with pytest.raises(EmptyPromptError):
        llm.generate(["fine", ""], ONE)


@pytest.mark.parametrize("n_tokens", [512, 5000])
def test_a_prompt_that_leaves_no_room(llm, n_tokens):
    error = refused(llm, "x" * n_tokens, kind=ContextLengthError)
    assert (error.n_prompt_tokens, error.n_ctx) == (n_tokens, 512)
    assert (error.code, error.param) == ("context_length_exceeded", "prompt")
    assert str(n_tokens) in str(error)
    assert "max_context" in error.hint


@pytest.mark.parametrize("token", [-1, 264, 10**6])
def test_a_token_id_outside_the_vocabulary(llm, token):
    with pytest.raises(RequestError, match=f"token id {token} is outside") as caught:
        next(llm.stream_ids([1, token], ONE))
    assert caught.value.param == "prompt"


def test_text_that_is_no_unicode(llm):
    assert refused(llm, "a\ud800b").param == "prompt"


@pytest.mark.parametrize("value", [0, -1, True, "5", 2.0])
def test_max_tokens_that_are_no_count(value):
    with pytest.raises(RequestError, match="max_tokens") as caught:
        SamplingParams(max_tokens=value)
    assert caught.value.param == "max_tokens"


def test_stop_tokens_that_are_no_ids():
    with pytest.raises(RequestError, match="stop_token_ids") as caught:
        SamplingParams(stop_token_ids=("</s>",))
    assert caught.value.param == "stop_token_ids"


def test_a_request_may_not_name_an_unknown_drafter(llm):
    with pytest.raises(ConfigError, match="'psychic'"):
        next(llm.stream_ids([1], ONE, drafter="psychic"))


def test_chat_without_a_template(open_llm, copy):
    (copy / "chat_template.jinja").unlink()
    llm = open_llm(copy)
    with pytest.raises(RequestError, match="no chat template") as caught:
        llm.chat([{"role": "user", "content": "hi"}], ONE)
    assert caught.value.param == "messages"
    assert llm.generate("hi", ONE).completion_tokens == 1
