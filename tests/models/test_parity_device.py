"""Transformers' logits again, on the GPU: XLA's own float32 products at the highest precision."""

import numpy as np
import pytest

from tests.models.jax_forward import Runner, largest, load_parity

TOLERANCE = 1e-4  # of float32 logits
ROWS = 32  # the one row bucket of a device whose rows are not tiled


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["dense", "dense_tied", "vl"])
def test_prefill_and_rows_equal_the_reference(case):
    config, weights, reference = load_parity(case)
    runner, ids = Runner(config, weights), reference["ids"]
    bound = TOLERANCE + TOLERANCE * np.abs(reference["logits"])  # dense_tied's logits reach 30
    prefill, _ = runner.prefill(ids, runner.state())
    assert (np.abs(prefill - reference["logits"]) <= bound).all()
    plain = runner.decode(ids, ROWS, length=1)
    assert (np.abs(plain - reference["logits"]) <= bound).all()
    np.testing.assert_array_equal(runner.decode(ids, ROWS, first=5), plain)
    print(f"{case}: largest difference {largest(plain, reference['logits']):.2e}")
