"""`LLM` and its policies: which one decides, what it keeps, and what is refused by name."""

import json

import numpy as np
import pytest

from checkpoints.synthetic_drafter import tiny_drafter_config, write_drafter
from tandem_jax import SamplingParams
from tandem_jax.drafters.corpus import DOC_SEP, MAX_ORDER
from tandem_jax.errors import ConfigError
from tandem_jax.routing import device_slug, policy_for, routing_warnings

PROMPT = "Round and round the garden, round and round the"
PARAMS = SamplingParams(max_tokens=30, ignore_eos=True)


@pytest.fixture(scope="module")
def drafter(directory, tmp_path_factory):
    config = tiny_drafter_config(json.loads((directory / "config.json").read_text()))
    return write_drafter(tmp_path_factory.mktemp("policy-drafter") / "random-b8", config, seed=2)


def tokens_of(llm, **options):
    ids = llm.tokenizer.encode(PROMPT)
    return [t for event in llm.stream_ids(ids, PARAMS, **options) for t in event.tokens]


@pytest.mark.parametrize("policy", ["staircut", "length", "mtp", "none"])
def test_the_text_is_plain_decodings(llm, open_llm, drafter, policy):
    model = {} if policy in ("mtp", "none") else {"draft_model": drafter}
    chosen = open_llm(policy=policy, prices="gb10", **model)
    plain = tokens_of(llm, drafter="none")
    assert [tokens_of(chosen) for _ in range(2)] == [plain, plain]
    facts = json.loads(json.dumps(chosen.describe()))["routing"]
    assert (facts["policy"], facts["prices"]) == (policy, "gb10")


def test_who_decides():
    """(drafter, policy asked, draft model, MTP head) -> who decides."""
    assert policy_for("auto", "auto", True, False) == "staircut"
    assert policy_for("auto", "auto", False, True) == "mtp"
    assert policy_for("auto", "auto", False, False) == "staircut"  # on the lookup alone
    assert policy_for("lookup", "auto", False, True) is None
    assert policy_for("auto", "fixed8", True, False) == "fixed8"
    assert policy_for("auto", "none", False, False) == "none"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("auto", "fastest", True, True), "unknown policy 'fastest'"),
        (("lookup", "staircut", True, True), "the drafter 'lookup' was asked for"),
        (("auto", "mtp", True, False), "needs an MTP head"),
        (("auto", "fixed16", False, True), "needs a draft model"),
        (("auto", "length", False, True), "needs a draft model"),
    ],
)
def test_who_cannot_decide(asked, message):
    with pytest.raises(ConfigError, match=message):
        policy_for(*asked)


def test_a_policy_on_less_than_it_was_made_for_says_so():
    assert routing_warnings("staircut", 16) == ()
    assert routing_warnings(None, None) == ()
    (line,) = routing_warnings("length", 16)
    assert "first 7 slots stand for the narrow drafter" in line
    (line,) = routing_warnings("fixed16", 8)
    assert "block has 8 rows, not 16" in line


def test_what_was_learned_is_kept_between_programs(open_llm, drafter, tmp_path):
    path = tmp_path / "learned" / "router.json"
    first = open_llm(draft_model=drafter, prices="gb10", learned=path)
    tokens_of(first)
    before = first.describe()["routing"]["learned"]
    assert before["slower"] != {}
    first.close()
    second = open_llm(draft_model=drafter, prices="gb10", learned=path)
    assert second.describe()["routing"]["learned"] == json.loads(json.dumps(before))
    assert tokens_of(second) == tokens_of(second, drafter="none")
    with pytest.raises(
        ConfigError, match=r"policy 'staircut' on the prices 'gb10', not by 'fixed8'"
    ):
        open_llm(draft_model=drafter, policy="fixed8", prices="gb10", learned=path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "policy": "x"}'])
def test_a_damaged_lesson_is_refused(open_llm, tmp_path, text):
    path = tmp_path / "router.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"router\.json"):
        open_llm(learned=path)
    assert path.read_text() == text


def test_prices_and_lessons_need_a_policy(open_llm, tmp_path):
    with pytest.raises(ConfigError, match="'lookup' weighs no prices"):
        open_llm(drafter="lookup", prices="gb10")
    with pytest.raises(ConfigError, match="learns nothing"):
        open_llm(drafter="none", learned=tmp_path / "x.json")
    with pytest.raises(ConfigError, match="no price file 'nowhere'") as caught:
        open_llm(prices="nowhere")
    assert "gb10" in caught.value.hint
    broken = tmp_path / "prices.json"
    broken.write_text('{"1024": {"tree": {"8": 1.0}}, "speed": 3}')
    with pytest.raises(ConfigError, match="unknown key 'speed'"):
        open_llm(prices=broken)


def test_a_missing_table_is_one_line(open_llm, caplog):
    llm = open_llm()
    (line,) = [line for line in caplog.messages if "no prices" in line]
    assert f"{llm.model_name}.cpu" in line
    assert llm.describe()["routing"]["prices"] == "none"
    assert device_slug("NVIDIA H200") == "nvidia-h200"


def write_corpus(folder, tokens, sha):
    folder.mkdir()
    array = np.array([*tokens, DOC_SEP], np.int32)
    order = sorted(range(len(tokens)), key=lambda i: array[i:].tolist())
    np.save(folder / "tokens.npy", array)
    np.save(folder / "sa.npy", np.array(order, np.int32))
    meta = {"max_order": MAX_ORDER, "doc_sep": DOC_SEP, "tokenizer": sha}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def test_stored_text_is_copied_from_and_never_changes_the_answer(llm, open_llm, tmp_path):
    plain = tokens_of(llm, drafter="none")
    ids = llm.tokenizer.encode(PROMPT)
    corpus = write_corpus(tmp_path / "corpus", [*ids, *plain], llm.tokenizer.fingerprint)
    copying = open_llm(corpus=corpus, prices="gb10", policy="staircut", draft_model=None)
    events = list(copying.stream_ids(ids, PARAMS))
    assert [token for event in events for token in event.tokens] == plain
    assert "lookup" in {source for event in events for source in event.sources}
    with pytest.raises(ConfigError, match="made for another tokenizer"):
        open_llm(corpus=write_corpus(tmp_path / "foreign", ids, "0" * 64))


def test_the_suffix_store_remembers_requests(llm, open_llm, tmp_path):
    path = tmp_path / "store"
    ids, plain = llm.tokenizer.encode(PROMPT), tokens_of(llm, drafter="none")
    writer = open_llm(suffix_store=path)
    assert tokens_of(writer) == plain
    with pytest.raises(ConfigError, match="in use"):
        open_llm(suffix_store=path)
    with pytest.raises(ConfigError, match="no price file"):
        open_llm(suffix_store=tmp_path / "other", prices="nowhere")
    open_llm(suffix_store=tmp_path / "other").close()  # the refusal above let go of it
    writer.close()
    reader = open_llm(suffix_store=path, suffix_store_readonly=True, prices="gb10")
    (store,) = reader._stores
    order, lines = store.continuations(ids[-8:], 8, 30)
    assert (order, lines[0]) == (8, tuple(plain))
    size = path.stat().st_size
    events = list(reader.stream_ids(ids, PARAMS))
    assert [token for event in events for token in event.tokens] == plain
    assert path.stat().st_size == size
    reader.close()
    with pytest.raises(ConfigError, match="without a suffix_store"):
        open_llm(suffix_store_readonly=True)


def test_a_full_disk_does_not_take_the_answer(llm, open_llm, tmp_path, monkeypatch, caplog):
    writer = open_llm(suffix_store=tmp_path / "store")

    def full(tokens):
        raise OSError("no space left on device")

    monkeypatch.setattr(writer._stores[0], "append", full)
    assert tokens_of(writer) == tokens_of(llm, drafter="none")
    assert "suffix store store: not added: no space left on device" in caplog.messages
    writer.close()


def test_buckets_are_compiled_when_there_is_time(open_llm):
    lazy = open_llm(warmup="lazy", row_buckets=(8, 16), node_budget=None)
    assert set(lazy.engine.missing_rows()) == {16}
    plain = tokens_of(lazy, drafter="none")
    # A bucket that would have to be compiled within the answer costs more than it can earn.
    assert tokens_of(lazy) == plain
    assert set(lazy.engine.missing_rows()) == {16}
    assert lazy.compile_one()
    assert not lazy.compile_one()
    assert tokens_of(lazy) == plain
