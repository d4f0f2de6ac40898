"""The bench of every law; asking for it makes a test part of the CPU's and the GPU's suite."""

import pytest

from tests.laws.bench import Bench, tiny_bench


@pytest.fixture(scope="session")
def bench(platform: str) -> Bench:
    """Float32, with the MTP head."""
    return tiny_bench("float32")


@pytest.fixture(scope="session")
def bench_bf16(platform: str) -> Bench:
    """Bfloat16 weights, activations and KV."""
    return tiny_bench("bfloat16")
