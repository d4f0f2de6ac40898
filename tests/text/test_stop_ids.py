"""Stop ids come from generation_config.json, else from config.json."""

import pytest

from tandem_jax.errors import CheckpointError
from tandem_jax.text import stop_token_ids


@pytest.mark.parametrize(
    ("generation", "config", "wanted"),
    [
        ({"eos_token_id": [7, 5, 7]}, {"eos_token_id": 9}, (7, 5)),
        ({"eos_token_id": 7}, {"eos_token_id": 9}, (7,)),
        ({}, {"eos_token_id": 9}, (9,)),
        (None, {"text_config": {"eos_token_id": [3]}}, (3,)),
        (None, {"eos_token_id": None, "text_config": None}, ()),
        ({"eos_token_id": 0}, {}, (0,)),
    ],
)
def test_the_first_source_that_names_any_wins(generation, config, wanted):
    assert stop_token_ids(generation, config) == wanted


@pytest.mark.parametrize("value", ["7", [1, "2"], True, -1, 1.0])
def test_other_shapes_are_refused(value):
    with pytest.raises(CheckpointError, match="eos_token_id"):
        stop_token_ids({"eos_token_id": value}, {})
