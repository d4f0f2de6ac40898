"""`tandem demo` and `tandem generate`: what is written, and where."""

import json

import pytest

TEXT = "héllo \x1b[31mworld, this is the canned answer of a model that knows one text"
N_TOKENS = len(TEXT.encode()) + 1  # and the end token


def test_demo_prints_one_json_object_and_nothing_else(tandem):
    done = tandem("demo", "--json", "--max-tokens", "9")
    assert (done.exit_code, done.stderr) == (0, "")
    record = json.loads(done.stdout)
    assert record["text"] == "héllo \x1b["  # nine bytes, é has two
    assert (record["tokens"], record["rounds"], record["tokens_per_round"]) == (9, 2, 4.0)
    assert record["by_source"] == {"lookup": 4, "target": 3, "mtp": 2}
    assert record["lossless"] is True
    assert (record["device"], record["exactness_class"]) == ("cpu", "bitwise")
    assert (record["model"], record["drafter"]) == ("fake", "lookup")
    assert record["prompt"].startswith("def add(a, b):")
    assert record["token_ids"] == list(TEXT.encode()[:9])
    assert record["seconds"] > 0


def test_generate_json_does_not_verify_unless_asked(tandem):
    plain = json.loads(tandem("generate", "-p", "a", "--json").stdout)
    verified = json.loads(tandem("generate", "-p", "a", "--json", "--verify").stdout)
    assert (plain["lossless"], verified["lossless"]) == (None, True)
    assert plain["text"] == TEXT
    assert plain["tokens"] == N_TOKENS


def test_first_token_alone_takes_no_round(tandem):
    record = json.loads(tandem("generate", "-p", "a", "-n", "1", "--json").stdout)
    assert (record["tokens"], record["rounds"], record["tokens_per_round"]) == (1, 0, 0.0)


def test_text_goes_to_stdout_and_counts_to_stderr(tandem):
    done = tandem("generate", "--prompt", "a")
    assert done.stdout == TEXT.replace("\x1b", "\\x1b") + "\n"
    for word in ("lookup", "mtp", "tokens per round", "bitwise", "lookup: copied"):
        assert word in done.stderr


def test_an_escape_sequence_of_the_model_never_reaches_the_terminal(tandem):
    done = tandem("generate", "--prompt", "a")
    assert "\x1b" not in done.stdout


def test_demo_says_when_plain_decoding_differs(tandem, fake_llm, monkeypatch):
    assert "lossless: plain decoding wrote exactly the same" in tandem("demo").stderr
    monkeypatch.setattr(fake_llm, "lossless", False)
    assert "NOT lossless" in tandem("demo").stderr
    assert json.loads(tandem("demo", "--json").stdout)["lossless"] is False


def test_prompt_comes_from_a_file_or_standard_input(tandem, tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text("grüße", encoding="utf-8")
    from_file = tandem("generate", "--json", "--prompt-file", str(path))
    from_stdin = tandem("generate", "--json", "--prompt-file", "-", stdin="grüße")
    assert json.loads(from_file.stdout)["prompt"] == "grüße"
    assert json.loads(from_stdin.stdout)["prompt"] == "grüße"


@pytest.mark.parametrize("command", ["demo", "generate"])
def test_options_reach_the_model(tandem, fake_llm, command):
    prompt = [] if command == "demo" else ["--prompt", "a"]
    tandem(command, *prompt, "--model", "nano", "--drafter", "mtp")
    tandem(command, *prompt, "--draft-model", "mini-b8", "--tap", "entry", "--policy", "fixed8")
    unset = {"max_context": None, "policy": "auto", "prices": None, "corpus": None}
    unset |= {"suffix_store": None, "suffix_store_readonly": False, "learned": None}
    first = {"model": "nano", "drafter": "mtp", "draft_model": None, "tap": None}
    second = {"model": "mini", "drafter": "auto", "draft_model": "mini-b8", "tap": "entry"}
    assert fake_llm.opened == [unset | first, unset | second | {"policy": "fixed8"}]


def test_the_model_is_closed_however_the_answer_ends(tandem, fake_llm, monkeypatch):
    """Closing is what keeps the lessons of a policy and lets go of the stores."""
    tandem("generate", "-p", "a")
    tandem("generate", "-p", "a", "--json")
    tandem("demo")
    tandem("chat", stdin="hello\n/quit\n")
    assert fake_llm.closed == len(fake_llm.opened) == 4
    assert tandem("generate", "-p", "a" * 5000).exit_code == 2  # longer than the context
    assert fake_llm.closed == 5

    def interrupted(self, prompt_ids, params):
        raise KeyboardInterrupt

    monkeypatch.setattr(fake_llm, "stream_ids", interrupted)
    assert tandem("generate", "-p", "a").exit_code == 130
    assert fake_llm.closed == 6
