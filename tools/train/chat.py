"""Renders chats with the demo model's own template, in the sandbox every server uses."""

import json
from functools import cache
from pathlib import Path

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATE_PATH = Path(__file__).with_name("chat_template.jinja")


def _raise(message: str):
    raise jinja2.TemplateError(message)


def _tojson(value, **options) -> str:
    return json.dumps(value, ensure_ascii=False, **options)


@cache
def template() -> jinja2.Template:
    """Return the compiled chat template (Hugging Face's environment settings)."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.globals["raise_exception"] = _raise
    environment.filters["tojson"] = _tojson
    return environment.from_string(TEMPLATE_PATH.read_text())


def render(messages: list[dict], **variables) -> str:
    """Return the text of a chat; `variables` are tools, enable_thinking, add_generation_prompt.

    Raises jinja2.TemplateError for chats the template refuses.
    """
    return template().render(messages=messages, **variables)
