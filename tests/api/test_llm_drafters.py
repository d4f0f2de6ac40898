"""`LLM` with a block drafter beside the model, and what a user can get wrong about it."""

import json

import pytest

from checkpoints.synthetic_drafter import tiny_drafter_config, write_drafter
from tandem_jax import LLM, SamplingParams, api, loading_drafter
from tandem_jax.errors import ConfigError, TandemError

PROMPT = "Round and round the garden, round and round the"
PARAMS = SamplingParams(max_tokens=30, ignore_eos=True)


@pytest.fixture(scope="module")
def drafter(directory, tmp_path_factory):
    """A random drafter for the sound checkpoint."""
    config = tiny_drafter_config(json.loads((directory / "config.json").read_text()))
    return write_drafter(tmp_path_factory.mktemp("api-drafter") / "random-b8", config, seed=2)


@pytest.fixture(scope="module")
def drafted(open_llm, drafter):
    """Opened with `auto` and a draft model."""
    return open_llm(draft_model=drafter)


@pytest.fixture
def nothing_loads(monkeypatch):
    """Loading weights fails the test."""

    def loaded(*_):
        raise AssertionError("the weights were loaded")

    monkeypatch.setattr(api, "load_model", loaded)


def test_facts(drafted, drafter):
    facts = json.loads(json.dumps(drafted.describe()))
    assert (drafted.drafter_name, drafted.draft_model) == ("auto", "random-b8")
    assert (facts["drafter"], facts["draft_model"]) == ("auto", "random-b8")
    assert facts["block_drafter"]["block_size"] == 8
    assert facts["block_drafter"]["tap"] == "output"
    assert "dflash2" in facts["drafters"]
    assert "mtp" not in facts["drafters"]
    assert facts["warnings"] == []


@pytest.mark.parametrize("name", ["auto", "dflash2", "random", "half-right"])
def test_the_text_is_that_of_the_model_alone(llm, drafted, name):
    ids = llm.tokenizer.encode(PROMPT)
    plain = [t for event in llm.stream_ids(ids, PARAMS, drafter="none") for t in event.tokens]
    events = list(drafted.stream_ids(ids, PARAMS, drafter=name))
    assert [token for event in events for token in event.tokens] == plain
    assert sum(event.drafted for event in events) > 0


def test_by_name_and_with_another_tap(open_llm, drafter):
    llm = open_llm(drafter="dflash2", draft_model=str(drafter), tap="entry")
    assert llm.describe()["block_drafter"]["tap"] == "entry"
    report = llm.verify_lossless(PROMPT, PARAMS)
    assert (report.lossless, report.drafter) == (True, "dflash2")


def test_progress_names_the_drafter(open_llm, drafter):
    calls = []
    open_llm(draft_model=drafter, progress=lambda *call: calls.append(call))
    assert {phase for phase, _, _ in calls} == {"load", "load drafter"}


def test_a_shipped_target_takes_its_shipped_drafter(open_llm, directory, drafter, monkeypatch):
    monkeypatch.setattr(loading_drafter, "default_drafter", lambda target, block: drafter)
    assert open_llm().draft_model == "random-b8"
    assert open_llm(drafter="lookup").draft_model is None


@pytest.mark.usefixtures("nothing_loads")
class TestOpening:
    """All of these are told before the weights are read."""

    def refused(self, *args, **options):
        with pytest.raises(TandemError) as caught:
            LLM(*args, **options)
        assert type(caught.value) is ConfigError
        return caught.value

    def test_no_draft_model(self, directory):
        error = self.refused(directory, drafter="dflash2")
        assert "'dflash2' needs a draft model" in str(error)
        assert "--draft-model" in error.hint

    @pytest.mark.parametrize("name", ["none", "lookup", "mtp", "random"])
    def test_a_draft_model_nobody_uses(self, directory, drafter, name):
        error = self.refused(directory, drafter=name, draft_model=drafter)
        assert f"'{name}' uses no draft model" in str(error)
        assert "'dflash2' or 'auto'" in error.hint

    def test_a_tap_without_a_draft_model(self, directory):
        assert "tap = 'entry'" in str(self.refused(directory, tap="entry"))

    def test_a_wrong_tap(self, directory, drafter):
        error = self.refused(directory, draft_model=drafter, tap="exit")
        assert "tap = 'exit'" in str(error)

    def test_a_drafter_of_another_target(self, directory, tmp_path):
        target = json.loads((directory / "config.json").read_text())
        config = tiny_drafter_config({**target, "vocab_size": 300})
        other = write_drafter(tmp_path / "other", config, seed=1)
        assert "vocab_size 300" in str(self.refused(directory, draft_model=other))


@pytest.mark.parametrize(
    ("opened_with", "asked", "words"),
    [
        ("drafted", "mtp", "opened without"),
        ("llm", "dflash2", "'dflash2' needs a draft model, which this LLM was opened without"),
    ],
)
def test_a_request_for_a_drafter_that_is_not_there(request, opened_with, asked, words):
    llm = request.getfixturevalue(opened_with)
    with pytest.raises(ConfigError, match=words) as caught:
        next(llm.stream_ids([1], PARAMS, drafter=asked))
    assert caught.value.hint


def test_a_headless_target_needs_no_warning_with_a_draft_model(
    write_model, open_llm, tmp_path, drafter, caplog
):
    made = write_model(tmp_path / "headless", mtp=False)
    llm = open_llm(made, draft_model=drafter)
    assert llm.warnings == ()
    (line,) = caplog.messages
    assert line.startswith("no prices for this device (headless.")
