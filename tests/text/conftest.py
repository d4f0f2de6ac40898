"""A small byte-level BPE tokenizer in the layout of the real ones, trained on a few sentences."""

import json

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, trainers
from tokenizers import pre_tokenizers as pre

from tandem_jax import text

SENTENCES = [
    "The quick brown fox jumps over the lazy dog, and the dog does not mind at all.",
    "def add(left, right):\n    return left + right\n\n\nprint(add(1, 22))",
    "Größe, façade, naïve; 中文也可以; 👩‍👩‍👧‍👦 families and 🎉 parties.",
    "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>",
] * 20
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]  # flagged special, as in Qwen3.5
UNFLAGGED = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
UNFLAGGED += ["<think>", "</think>"]
PATTERN = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s+"

CHAT_TEMPLATE = """\
{%- macro content_of(content) %}
    {%- if content is string %}{{- content }}{%- endif %}
{%- endmacro %}
{%- set ns = namespace(query=false) %}
{%- for message in messages %}
    {%- set content = content_of(message.content) | trim %}
    {%- if message.role == 'user' and not
           (content.startswith('<tool_response>') and content.endswith('</tool_response>')) %}
        {%- set ns.query = true %}
    {%- endif %}
{%- endfor %}
{%- if not ns.query %}{{- raise_exception('No user query found in messages.') }}{%- endif %}
{%- if tools %}
    {{- '<|im_start|>system\\n# Tools\\n' }}
    {%- for tool in tools %}{{- tool | tojson }}{{- '\\n' }}{%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set content = content_of(message.content) | trim %}
    {%- if message.role == 'assistant' %}
        {%- set reasoning = message.reasoning_content if message.reasoning_content is string %}
        {%- if not reasoning and '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].split('<think>')[-1] | trim %}
            {%- set content = content.split('</think>')[-1] | trim %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n<think>\\n' ~ (reasoning or '') ~ '\\n</think>\\n\\n' }}
        {{- content }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n<function=' + call.function.name + '>\\n' }}
            {%- for name, value in call.function.arguments | items %}
                {{- '<parameter=' + name + '>\\n' }}
                {{- value if value is string else value | tojson }}
                {{- '\\n</parameter>\\n' }}
            {%- endfor %}
            {{- '</function>\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + content }}
        {{- '\\n</tool_response><|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n<think>\\n' }}
    {%- if enable_thinking is false %}{{- '\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}
"""


@pytest.fixture(scope="session")
def reference() -> Tokenizer:
    """The library's own tokenizer, with its control tokens: what ours is compared with."""
    built = Tokenizer(models.BPE())
    built.normalizer = normalizers.NFC()
    split = pre.Split(Regex(PATTERN), behavior="isolated")
    byte_level = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    built.pre_tokenizer = pre.Sequence([split, byte_level])
    built.decoder = decoders.ByteLevel()
    alphabet = pre.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    built.train_from_iterator(SENTENCES, trainer)
    built.add_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    built.add_tokens([AddedToken(t, special=False, normalized=False) for t in UNFLAGGED])
    return built


@pytest.fixture(scope="session")
def checkpoint(reference, tmp_path_factory):
    """A directory with tokenizer.json, tokenizer_config.json and chat_template.jinja."""
    directory = tmp_path_factory.mktemp("checkpoint")
    reference.save(str(directory / "tokenizer.json"))
    config = {"eos_token": {"content": "<|im_end|>"}, "bos_token": None}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    return directory


@pytest.fixture(scope="session")
def tokenizer(checkpoint) -> text.Tokenizer:
    """Our wrapper around the same file."""
    return text.Tokenizer.from_directory(checkpoint)


@pytest.fixture(scope="session")
def chat(checkpoint, tokenizer) -> text.ChatTemplate:
    """The checkpoint's chat template."""
    return text.ChatTemplate.from_directory(checkpoint, tokenizer)
