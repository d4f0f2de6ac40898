"""The shared engine, warmed up; asking for it makes a test part of both suites."""

import pytest

from tandem_jax.engine.engine import Engine
from tests.laws.bench import new_engine, tiny_engine
from tests.laws.texts import PlainTexts


@pytest.fixture(scope="session")
def engine(platform: str) -> Engine:
    """Two slots, pages of 64 tokens, MTP head; every bucket is compiled."""
    engine = tiny_engine()
    engine.warm_up()
    return engine


@pytest.fixture
def fresh_engine(engine: Engine) -> Engine:
    """An engine that has served nobody, on the executables of the shared one."""
    fresh = new_engine()
    fresh.executables = engine.executables
    return fresh


@pytest.fixture(scope="session")
def plain_text(engine: Engine) -> PlainTexts:
    """Plain decoding of a prompt: `plain_text(prompt, n_tokens)`."""
    return PlainTexts(engine)
