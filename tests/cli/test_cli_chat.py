"""`tandem chat`: the turns of a conversation."""

import pytest


@pytest.fixture
def turns(fake_llm, monkeypatch):
    """Message lists that reached the model, one for each answer."""
    seen = []

    def encode_chat(self, messages, **template_kwargs):
        seen.append([(message["role"], message["content"]) for message in messages])
        return self.tokenizer.encode(messages[-1]["content"])

    monkeypatch.setattr(fake_llm, "encode_chat", encode_chat)
    return seen


def test_history_grows_and_reset_clears_it(tandem, turns):
    done = tandem("chat", "-n", "3", stdin="one\n\n  two \n/reset\nthree\n/quit\n")
    assert done.exit_code == 0
    assert turns == [
        [("user", "one")],
        [("user", "one"), ("assistant", "hé"), ("user", "two")],
        [("user", "three")],
    ]
    assert done.stdout.count("hé") == 3


def test_system_message_survives_reset(tandem, turns):
    tandem("chat", "-n", "1", "--system", "be brief", stdin="one\n/reset\ntwo\n")
    assert turns == [
        [("system", "be brief"), ("user", "one")],
        [("system", "be brief"), ("user", "two")],
    ]


def test_end_of_input_ends_the_conversation(tandem):
    assert tandem("chat", stdin="").exit_code == 0


def test_a_turn_too_long_is_dropped_and_the_talk_goes_on(tandem, turns):
    done = tandem("chat", "-n", "1", stdin=f"{'x' * 128}\nshort\n/quit\n")
    assert done.exit_code == 0
    assert "error: the prompt has 128 tokens" in done.stderr
    assert turns[1] == [("user", "short")]


def test_ctrl_c_stops_the_answer_not_the_talk(tandem, turns, fake_llm, monkeypatch):
    whole = fake_llm.stream_ids

    def interrupted(self, prompt_ids, params):
        yield next(whole(self, prompt_ids, params))
        raise KeyboardInterrupt

    monkeypatch.setattr(fake_llm, "stream_ids", interrupted)
    done = tandem("chat", stdin="one\ntwo\n/quit\n")
    assert done.exit_code == 0
    assert turns[1] == [("user", "one"), ("assistant", "h"), ("user", "two")]
