"""One place for how every test runs: platform, strict numerics, compile cache, property profiles.

`pytest` runs on two virtual CPU devices. `pytest -m gpu` leaves JAX its GPU, runs in one process
and prints the device and the matmul precision in the header.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
WORKERS = 2

# Derandomised, so that a red run is red again; `--hypothesis-profile deep` searches for longer.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=25, database=None)
settings.register_profile("deep", deadline=None, max_examples=1000, database=None)
settings.load_profile("ci")


def wants_gpu(config: pytest.Config) -> bool:
    """True for `-m gpu` and the like; `-m "not gpu"` does not count."""
    expression = config.getoption("markexpr", default="")
    return "gpu" in expression.replace("not gpu", "")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two workers for folders; none for single files (start-up costs more) or on the one GPU."""
    single = all(Path(arg.split("::")[0]).suffix == ".py" for arg in config.args)
    return 0 if single or wants_gpu(config) else WORKERS


def pytest_configure(config: pytest.Config) -> None:
    """Set the environment (child processes inherit it), then JAX's own strictness."""
    if not wants_gpu(config):
        os.environ["JAX_PLATFORMS"] = "cpu"
    # Shared by the xdist workers, by child processes and by the next run on this checkout.
    for variable in ("JAX_COMPILATION_CACHE_DIR", "TANDEM_CACHE_DIR"):
        os.environ.setdefault(variable, str(ROOT / ".cache" / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

    import jax

    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")
    if wants_gpu(config):
        jax.config.update("jax_default_matmul_precision", "highest")
    else:
        jax.config.update("jax_num_cpu_devices", 2)


def pytest_report_header(config: pytest.Config) -> str:
    """Name what the numbers of this run were made on."""
    import jax

    device = jax.devices()[0].device_kind if wants_gpu(config) else "cpu"
    precision = jax.config.jax_default_matmul_precision or "default"
    return f"jax {jax.__version__} on {device}, matmul precision {precision}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip GPU tests with a visible reason where JAX has no GPU."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import jax

    backend = jax.default_backend()
    if backend != "gpu":
        reason = f"needs a GPU, JAX runs on {backend}: use `pytest -m gpu` on a machine with one"
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def platform(request: pytest.FixtureRequest) -> str:
    """Makes a test part of both suites: the CPU's, and the GPU's under `-m gpu`."""
    return request.param


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout's top folder."""
    return ROOT
