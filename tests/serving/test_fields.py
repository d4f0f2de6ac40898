"""Every line of the table of request fields, over HTTP."""

import pytest

from serving.fields import FIELDS, Effect, fields_of
from serving.schemas import ChatRequest, CompletionRequest

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
MODELS = {"chat": ChatRequest, "completions": CompletionRequest}
NEEDED = {
    "chat": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4},
    "completions": {"prompt": "hi", "max_tokens": 4},
}
REQUIRED = {"messages", "prompt"}
LINES = [(route, field) for field in FIELDS for route in sorted(field.routes)]


def cases(kind):
    return [
        pytest.param(route, field.name, value, id=f"{route}-{field.name}-{value!r:.30}")
        for route, field in LINES
        for value in getattr(field, kind)
    ]


@pytest.mark.parametrize(("route", "name", "value"), cases("accepted"))
def test_accepted_values_are_answered(client, route, name, value):
    answer = client.post(PATHS[route], NEEDED[route] | {name: value})
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["finish_reason"] in {"length", "stop"}


@pytest.mark.parametrize(("route", "name", "value"), cases("refused"))
def test_refused_values_name_their_field(client, llm, route, name, value):
    answer = client.post(PATHS[route], NEEDED[route] | {name: value})
    unknown_model = name == "model" and isinstance(value, str)
    assert answer.status_code == (404 if unknown_model else 400), answer.text
    error = answer.json()["error"]
    assert error["param"] == name
    assert error["message"]
    assert llm.seen == []


@pytest.mark.parametrize(("route", "field"), LINES, ids=lambda x: getattr(x, "name", x))
def test_null_counts_as_absent(client, route, field):
    answer = client.post(PATHS[route], NEEDED[route] | {field.name: None})
    is_required = field.name in REQUIRED and field.effect is Effect.HONOURED
    assert answer.status_code == (400 if is_required else 200)


@pytest.mark.parametrize(("route", "field"), LINES, ids=lambda x: getattr(x, "name", x))
def test_lines_have_examples(route, field):
    assert field.accepted or field.effect is Effect.REFUSED or field.name == "stream_options"
    assert bool(field.refused) == (field.effect is not Effect.IGNORED)
    assert bool(field.why) == (field.effect is Effect.REFUSED)


@pytest.mark.parametrize("route", PATHS)
def test_types_and_table_list_the_same_fields(route):
    honoured = {n for n, field in fields_of(route).items() if field.effect is Effect.HONOURED}
    assert honoured == MODELS[route].model_fields.keys()
    assert len(fields_of(route)) == sum(route in field.routes for field in FIELDS)


def test_unknown_fields_are_ignored_and_logged_once(client, caplog):
    for _ in range(2):
        assert client.chat(some_new_field=1, max_tokens=1).status_code == 200
    assert sum("some_new_field" in record.message for record in caplog.records) == 1


def test_unknown_fields_are_refused_on_wish(client):
    body = NEEDED["chat"] | {"some_new_field": 1}
    answer = client.post(PATHS["chat"], body, headers={"X-Strict": "1"})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "some_new_field"
    known = client.post(PATHS["chat"], NEEDED["chat"] | {"user": "x"}, headers={"X-Strict": "1"})
    assert known.status_code == 200
