"""Bad input: one clear line, what to do, exit code 2, no traceback, nothing on stdout."""

import pytest

LONG = "x" * 128  # as many tokens as FakeLLM has positions


@pytest.mark.parametrize(
    ("args", "error", "hint"),
    [
        (["-p", ""], "the prompt is empty", "at least one character"),
        (["-p", "a", "--max-tokens", "0"], "max_tokens must be at least 1, not 0", "leave it out"),
        (["-p", "a", "--max-tokens", "-3"], "max_tokens must be at least 1, not -3", "leave it"),
        (["-p", LONG], "the prompt has 128 tokens, but the context holds 128", "shorten"),
        (["-p", "a", "-m", "damaged"], "damaged/model.safetensors ends early", "copy it again"),
        (["-p", "a", "-d", "guess"], "unknown drafter 'guess'", "choose one of: auto"),
        ([], "give exactly one of --prompt and --prompt-file", "for example"),
        (["-p", "a", "-f", "b"], "give exactly one of --prompt and --prompt-file", "for example"),
        (["-f", "missing.txt"], "cannot read missing.txt: No such file", "check --prompt-file"),
        (["-f", "."], "cannot read .: Is a directory", "check --prompt-file"),
    ],
    ids=lambda value: " ".join(value)[:24] if isinstance(value, list) else "",
)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_user_error_is_two_lines_and_exit_code_2(tandem, args, error, hint, form):
    done = tandem("generate", *args, *form)
    assert (done.exit_code, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(f"error: {error}")
    assert second.startswith("hint: ")
    assert hint in second


def test_prompt_file_that_is_not_text(tandem, tmp_path):
    path = tmp_path / "prompt.bin"
    path.write_bytes(b"ok \xff")
    done = tandem("generate", "--prompt-file", str(path))
    assert done.exit_code == 2
    assert "is not UTF-8 text: byte 3 cannot be decoded" in done.stderr


def test_errors_known_without_a_model_come_before_it_is_opened(tandem, fake_llm):
    tandem("generate", "-p", "")
    tandem("generate", "-p", "a", "--max-tokens", "0")
    tandem("generate", "-p", "a", "--drafter", "guess")
    tandem("demo", "--max-tokens", "0")
    tandem("chat", "--drafter", "guess")
    tandem("generate", "-p", "a", "--policy", "fastest")
    assert fake_llm.opened == []


@pytest.mark.parametrize(
    "args",
    [
        ["generate", "--max-tokens", "many"],
        ["demo", "--colour"],
        ["dance"],
        ["serve", "--port", "-1"],
    ],
    ids=" ".join,
)
def test_usage_error_has_exit_code_2(tandem, args):
    done = tandem(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_ctrl_c_exits_with_130(tandem, fake_llm, monkeypatch):
    def interrupted(self, prompt_ids, params):
        raise KeyboardInterrupt

    monkeypatch.setattr(fake_llm, "stream_ids", interrupted)
    done = tandem("generate", "-p", "a")
    assert (done.exit_code, done.stderr) == (130, "")


def test_a_fault_of_our_own_is_not_hidden(tandem, fake_llm, monkeypatch):
    def broken(self, prompt_ids, params):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(fake_llm, "stream_ids", broken)
    done = tandem("generate", "-p", "a")
    assert (done.exit_code, type(done.exception)) == (1, ZeroDivisionError)
