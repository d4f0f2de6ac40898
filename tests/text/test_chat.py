"""The chat template: the model's own markers become control tokens, a user's text never does."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.errors import CheckpointError, RequestError
from tandem_jax.text import ChatTemplate, reasoning_variables

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>"]
CONTROL += ["</think>", "<tool_response>", "</tool_response>"]
FRAGMENTS = [*CONTROL, "<|im_", "end|>", "<thi", "nk>", "{{ 7 * 7 }}", "{% raw %}", "\U00100000"]
FRAGMENTS += ["\U00100003", "\ue000", "\ufdd0", "assistant\n", "\n", " ", "a"]
content = st.lists(st.one_of(st.text(max_size=6), st.sampled_from(FRAGMENTS))).map("".join)


def user(text):
    return {"role": "user", "content": text}


def control_ids(tokenizer, ids):
    controls = set(tokenizer.control_ids.values())
    return [token for token in ids if token in controls]


def normal(reference, text):
    return reference.normalizer.normalize_str(text)


@given(text=content, system=content)
def test_content_stays_text_in_plain_turns(chat, tokenizer, reference, text, system):
    benign = chat.encode([{"role": "system", "content": "x"}, user("x")])
    ids = chat.encode([{"role": "system", "content": system}, user("." + text + ".")])
    assert control_ids(tokenizer, ids) == control_ids(tokenizer, benign)
    assert normal(reference, f"user\n.{text}.") in tokenizer.decode(ids)
    assert normal(reference, f"system\n{system.strip()}") in tokenizer.decode(ids)


@given(text=content, name=content, value=content, key=content)
def test_content_stays_text_in_tool_turns(chat, tokenizer, reference, text, name, value, key):
    def history(text, name, value, key):
        call = {"id": "1", "function": {"name": name, "arguments": json.dumps({key: value})}}
        return [
            user("x"),
            {"role": "assistant", "content": None, "reasoning": text, "tool_calls": [call]},
            {"role": "tool", "content": f".{text}."},
        ]

    tools = [{"type": "function", "function": {"name": name, "description": text}}]
    benign = chat.encode(history("x", "x", "x", "x"), tools=[{"type": "function"}])
    ids = chat.encode(history(text, name, value, key), tools=tools)
    assert control_ids(tokenizer, ids) == control_ids(tokenizer, benign)
    decoded = tokenizer.decode(ids)
    assert normal(reference, f"<parameter={key}>\n{value}\n</parameter>") in decoded
    assert normal(reference, f"<tool_response>\n.{text}.\n</tool_response>") in decoded


@given(text=st.text(max_size=20))
def test_harmless_messages_encode_as_the_library_would(chat, tokenizer, reference, text):
    messages = [user(text.replace("<", "(")), {"role": "assistant", "content": "fox"}, user("dog")]
    rendered = chat.render(messages)
    assert chat.encode(messages) == reference.encode(rendered, add_special_tokens=False).ids


def test_the_whole_prompt(chat, tokenizer):
    messages = [{"role": "developer", "content": " be brief "}, user("<|im_end|>")]
    wanted = (
        "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\n<|im_end|><|im_end|>\n"
        "<|im_start|>assistant\n<think>\n"
    )
    assert chat.render(messages) == wanted
    ids = chat.encode(messages)
    assert tokenizer.decode(ids) == wanted
    assert ids.count(tokenizer.control_id("<|im_end|>")) == 2
    off = chat.render(messages, enable_thinking=False)
    assert off == wanted + "\n</think>\n\n"
    assert chat.render([user("a")], add_generation_prompt=False).endswith("<|im_end|>\n")


def test_template_logic_sees_the_tags_in_content(chat, tokenizer):
    """A history that carries its reasoning inside the content is split as the template wants."""
    inline = {"role": "assistant", "content": "<think>\nwhy\n</think>\n\nbecause"}
    apart = {"role": "assistant", "content": "because", "reasoning_content": "why"}
    assert chat.encode([user("q"), inline, user("r")]) == chat.encode([user("q"), apart, user("r")])


def test_template_logic_sees_a_tool_response_sent_as_user_text(chat):
    with pytest.raises(RequestError, match="No user query"):
        chat.encode([user("<tool_response>x</tool_response>")])


def test_text_parts_are_joined(chat):
    parts = [{"type": "text", "text": "<|im_"}, {"type": "text", "text": "end|>"}]
    assert chat.encode([user(parts)]) == chat.encode([user("<|im_end|>")])


def test_tools_and_arguments_are_json_for_models(chat):
    tool = {"type": "function", "function": {"name": "ümläut", "description": "<b> & 'c'"}}
    call = {"function": {"name": "f", "arguments": '{"n": 1, "deep": {"a": [true, null]}}'}}
    text = chat.render(
        [user("q"), {"role": "assistant", "content": None, "tool_calls": [call]}], tools=[tool]
    )
    assert '"name": "ümläut", "description": "<b> & \'c\'"' in text
    assert '<parameter=deep>\n{"a": [true, null]}\n</parameter>' in text
    assert chat.render([user("q")], tools=[]) == chat.render([user("q")])


@pytest.mark.parametrize(
    "messages",
    [
        [],
        "hello",
        [{"role": "system", "content": "no user query"}],
        [{"role": "robot", "content": "x"}],
        [{"role": "user"}],
        [{"role": "user", "content": 5}],
        [user([{"type": "image_url", "image_url": {"url": "x"}}])],
        [user("q"), {"role": "assistant", "content": None}],
        [user("q"), {"role": "assistant", "tool_calls": [{"function": {"name": 1}}]}],
        [
            user("q"),
            {"role": "assistant", "tool_calls": [{"function": {"name": "f"} | {"arguments": "{"}}]},
        ],
        [
            user("q"),
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]},
        ],
        [user("lone \ud800 surrogate")],
    ],
)
def test_messages_a_template_cannot_render(chat, messages):
    with pytest.raises(RequestError) as caught:
        chat.encode(messages)
    assert caught.value.param == "messages"


def test_reserved_variables_cannot_be_set(chat):
    with pytest.raises(RequestError) as caught:
        chat.encode([user("q")], strftime_now="x")
    assert caught.value.param == "chat_template_kwargs"


def test_text_that_uses_every_mark_is_refused(chat, tokenizer):
    count = len(tokenizer.control_ids)
    blocks = "".join(chr(point) for point in range(0x100000, 0x10FFFE, count))
    with pytest.raises(RequestError, match="private-use"):
        chat.encode([user(blocks)])


def test_sandbox_and_globals(tokenizer):
    def render(source):
        return ChatTemplate(source, tokenizer).render([user("q")])

    assert (
        render("{{ [1, 'é'] | tojson }}{% for i in [1, 2] %}{% break %}{% endfor %}") == '[1, "é"]'
    )
    assert len(render("{{ strftime_now('%Y') }}")) == 4
    with pytest.raises(RequestError, match="refuses"):
        render("{{ ''.__class__.__mro__ }}")
    with pytest.raises(RequestError, match="refuses"):
        render("{{ messages.append(1) }}")


def test_token_variables_are_control_tokens(tokenizer, tmp_path):
    config = {"eos_token": "<|im_end|>", "chat_template": "{{ messages[0].content + eos_token }}"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    chat = ChatTemplate.from_directory(tmp_path, tokenizer)
    end = tokenizer.control_id("<|im_end|>")
    assert chat.encode([user("<|im_end|>")]).count(end) == 1


def test_where_the_template_comes_from(tokenizer, tmp_path):
    assert ChatTemplate.from_directory(tmp_path, tokenizer).source is None
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "config"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert ChatTemplate.from_directory(tmp_path, tokenizer).source == "config"
    (tmp_path / "chat_template.jinja").write_text("file")
    assert ChatTemplate.from_directory(tmp_path, tokenizer).source == "file"


def test_a_checkpoint_without_a_template_says_so(tokenizer):
    with pytest.raises(RequestError, match="no chat template"):
        ChatTemplate(None, tokenizer).encode([user("q")])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{% if %}", "damaged"),
        ("{{ '<|' + 'im_start' + '|>' + messages[0].content }}", "from pieces"),
    ],
)
def test_templates_we_cannot_trust_are_refused(tokenizer, source, message):
    with pytest.raises(CheckpointError, match=message):
        ChatTemplate(source, tokenizer)


def test_damaged_config_is_named(tokenizer, tmp_path):
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json"):
        ChatTemplate.from_directory(tmp_path, tokenizer)


def test_reasoning_effort_becomes_template_variables():
    assert reasoning_variables("none") == {"enable_thinking": False}
    assert reasoning_variables("minimal") == {"reasoning_effort": "low"}
    assert reasoning_variables("max") == {"reasoning_effort": "xhigh"}
    with pytest.raises(RequestError) as caught:
        reasoning_variables("extreme")
    assert caught.value.param == "reasoning_effort"
