"""How a forward is laid out on one platform: a static value that jitted functions close over."""

from dataclasses import dataclass

from tandem_jax.ops.choose import Choice, choose
from tandem_jax.ops.delta_scan import DELTA_SCAN
from tandem_jax.ops.tree_attention import TREE_ATTENTION


@dataclass(frozen=True)
class Plan:
    """Layout and implementations; hashable, so that one plan is one set of executables."""

    platform: str  # jax platform name: "cpu" or "gpu"
    tile: int | None  # rows the reference ops work on at a time, None = the whole bucket
    unroll: bool  # True: layer groups written out (GPU graphs); False: scanned (quick compiles)
    delta_scan: Choice  # DeltaNet over tree rows
    tree_attention: Choice  # attention over tree rows

    @property
    def exactness(self) -> str:
        """ "bitwise" if every chosen op is, else "near-tie"."""
        exact = self.delta_scan.exact and self.tree_attention.exact
        return "bitwise" if exact else "near-tie"


def make_plan(platform: str, *, delta_scan: str | None = None) -> Plan:
    """The plan for `platform`; `delta_scan` names an implementation to use instead of the best.

    On a CPU rows run in tiles of eight and layers are scanned. On other platforms a single row
    bucket serves every round (see `engine.buckets`), so no tiles are needed.
    """
    on_cpu = platform == "cpu"
    return Plan(
        platform=platform,
        tile=8 if on_cpu else None,
        unroll=not on_cpu,
        delta_scan=choose("delta_scan", DELTA_SCAN, platform, delta_scan),
        tree_attention=choose("tree_attention", TREE_ATTENTION, platform),
    )
