"""Loading needs the weights and one layer of memory, not a second copy of anything larger."""

import subprocess
import sys

import pytest

from checkpoints.layouts import dense_shapes
from checkpoints.synthetic import tiny_dense_config, write_checkpoint

MIB = 2**20
SLACK_BYTES = 30 * MIB  # what the allocators and the compiler keep, about 10 MiB as measured
LAYERS = 16

# The first load pays for what happens once: compiled copies, thread pools, parsed headers. Memory
# that it freed is handed back, so that the second load has to ask for every byte again.
SCRIPT = """
import ctypes, gc, sys, threading
from pathlib import Path
import jax
from tandem_jax.loading import load_model

def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

directory, dtype = sys.argv[1:]
load_model(directory, dtype)
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
start = peak = resident_bytes()
done = threading.Event()

def watch():
    global peak
    while not done.wait(0.001):
        peak = max(peak, resident_bytes())

watcher = threading.Thread(target=watch)
watcher.start()
model = load_model(directory, dtype)
done.set()
watcher.join()
weights = sum(leaf.nbytes for leaf in jax.tree.leaves(model.weights))
print(peak - start, weights)
"""


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "nvfp4"])
def checkpoint(tmp_path_factory, request):
    """(directory, bytes of the largest layer): 199 MiB, nearly all of it in stacks of 64 MiB."""
    config = tiny_dense_config(hidden_size=256, intermediate_size=4096, num_hidden_layers=LAYERS)
    folder = tmp_path_factory.mktemp("large") / "ck"
    directory = write_checkpoint(folder, config, seed=9, nvfp4=request.param)
    layers = [0] * LAYERS
    for name, shape in dense_shapes(config).items():
        if name.startswith("layers."):
            size = 4
            for n in shape:
                size *= n
            layers[int(name.split(".")[1])] += size
    return directory, max(layers)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
@pytest.mark.parametrize(("dtype", "weight_mib"), [("float32", 199), ("bfloat16", 99)])
def test_peak_memory_is_the_weights_and_one_layer(root, checkpoint, dtype, weight_mib):
    directory, layer_bytes = checkpoint
    command = [sys.executable, "-c", SCRIPT, str(directory), dtype]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    growth, weights = map(int, done.stdout.split())
    assert round(weights / MIB) == weight_mib
    assert growth <= weights + layer_bytes + SLACK_BYTES, f"{(growth - weights) / MIB:.0f} MiB more"
