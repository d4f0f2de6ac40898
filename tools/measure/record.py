"""Record what the heads say behind every anchor of the workloads, for replays of any policy.

    python -m tools.measure.record --target checkpoints/demo/mini \\
        --drafters checkpoints/demo/mini-b16 checkpoints/demo/mini-b8 --out FOLDER
One .npz a workload: prompts, references, the lattices of a wide and a narrow drafter and the MTP
head's chain with its two best tokens a step. Letters: N anchors, L slots, k candidates, K steps.
"""

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.progress import track

from tandem_jax.drafters import HeadDraft, Lattice
from tools.measure.acceptance import rows_of
from tools.measure.common import DTYPES, compute_dtype, load_target, padded, read_workloads
from tools.measure.proposals import (
    ANCHORS,
    LENGTHS,
    MTP_DEPTH,
    Row,
    anchors_of,
    head_of,
    load_drafters,
    read_rows,
)
from tools.train.drafter_model import block_hidden, candidates, context_of, lattice_scores
from tools.train.drafter_shapes import DrafterShape
from tools.train.model import logits_of
from tools.train.mtp_chain import chain_hidden
from tools.train.shapes import ModelShape

TEMPERATURE = 1.4  # of the lattices, as the shipped drafters declare it


@dataclass(frozen=True)
class Record:
    """One prompt, its reference, and what the heads say behind each anchor of it."""

    prompt: np.ndarray  # [P] int32
    reference: np.ndarray  # [N+1] int32; its first N tokens are the anchors
    wide: tuple[np.ndarray, np.ndarray]  # candidates [N L k] int32, scores [N L k k] float32
    narrow: tuple[np.ndarray, np.ndarray] | None  # the same of the narrow drafter
    mtp: tuple[np.ndarray, np.ndarray] | None  # tokens [N K 2] int32, probabilities [N K 2]

    def lattice(self, which: str, anchor: int) -> Lattice | None:
        """What a block drafter said behind an anchor (0..N-1)."""
        said = getattr(self, which)
        return None if said is None else Lattice(said[0][anchor], said[1][anchor], TEMPERATURE)

    def chain(self, anchor: int) -> HeadDraft | None:
        """What the MTP head said behind an anchor."""
        if self.mtp is None:
            return None
        return HeadDraft.of_pairs(self.mtp[0][anchor], self.mtp[1][anchor])


def save_records(path: Path, records: list[Record]) -> None:
    """Write the records of one workload."""
    arrays = {"count": np.array(len(records))}
    for at, record in enumerate(records):
        arrays |= {f"{at}.prompt": record.prompt, f"{at}.reference": record.reference}
        for name in ("wide", "narrow", "mtp"):
            if getattr(record, name) is not None:
                arrays[f"{at}.{name}.0"], arrays[f"{at}.{name}.1"] = getattr(record, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.stem}.npz")  # a run that is stopped leaves no half of a file
    np.savez(draft, **arrays)
    draft.replace(path)


def read_records(path: Path) -> list[Record]:
    """Read the records of one workload."""
    with np.load(path) as file:
        found = {name: file[name] for name in file.files}

    def pair(name: str):
        return (found[f"{name}.0"], found[f"{name}.1"]) if f"{name}.0" in found else None

    return [Record(found[f"{at}.prompt"], found[f"{at}.reference"], pair(f"{at}.wide"),
                   pair(f"{at}.narrow"), pair(f"{at}.mtp")) for at in range(int(found["count"]))]


@partial(jax.jit, static_argnames=("s", "which"))
def _lattice_part(p, target, taps, tokens, at, *, s: DrafterShape, which: tuple[int, ...]):
    """Return (candidates [B N L k], scores [B N L k k]) of blocks behind the anchors at [B N]."""
    ctx = context_of(p, s, taps[jnp.asarray(which)])
    anchor = jnp.take_along_axis(tokens, at, 1)
    hidden = block_hidden(p, s, target["embed"], ctx, jnp.zeros_like(tokens), anchor, at)[:, :, 1:]
    cand, unary = candidates(p, s, head_of(target), hidden)
    return cand, lattice_scores(p, s, hidden, anchor, cand, unary)


@partial(jax.jit, static_argnames=("shape",))
def _own_chain(target, hidden, tokens, at, *, shape: ModelShape):
    """Return (tokens, probabilities) [B N K 2] of the head's own chains behind the anchors."""
    ahead = [jnp.pad(tokens[:, 1:], ((0, 0), (0, 1)))]
    picks = []
    for _ in range(MTP_DEPTH):
        out = chain_hidden(target["mtp"], target["embed"], hidden, jnp.stack(ahead),
                           jnp.zeros_like(tokens), shape)[-1]
        probs, token = jax.lax.top_k(jax.nn.softmax(logits_of(target, out), -1), 2)
        picks.append((token.astype(jnp.int32), probs))
        ahead.append(token[..., 0])
    # The row before the anchor joins its hidden state and the anchor's embedding.
    rows = (at - 1)[..., None]
    return tuple(jnp.stack([jnp.take_along_axis(each[i], rows, 1) for each in picks], 2)
                 for i in (0, 1))


class Recorder:
    """Runs the target, two block drafters and the MTP head over batches of rows."""

    def __init__(self, target, drafters: list, dtype) -> None:
        self.target, self.dtype = target, dtype
        ordered = sorted(drafters, key=lambda drafter: -drafter.shape.block)
        self.named = dict(zip(("wide", "narrow"), ordered, strict=False))
        self.taps = tuple(sorted({tap for drafter in drafters for tap in drafter.shape.taps}))

    def batch(self, rows: list[Row]) -> list[Record]:
        """Return the records of some rows, which are padded to one length."""
        params, shape = self.target.params, self.target.shape
        tokens = jnp.asarray(padded([row.prompt + row.reference for row in rows], LENGTHS))
        hidden, taps = read_rows(params, tokens, shape=shape, dtype=self.dtype, taps=self.taps)
        at = anchors_of(rows)
        said = {name: self._lattices(drafter, taps, tokens, at)
                for name, drafter in self.named.items()}
        if "mtp" in params:
            said["mtp"] = jax.device_get(
                _own_chain(params, hidden, tokens, jnp.asarray(at), shape=shape))
        return [self._record(row, place, said) for place, row in enumerate(rows)]

    def _lattices(self, drafter, taps, tokens, at):
        which = tuple(self.taps.index(tap) for tap in drafter.shape.taps)
        outs = [jax.device_get(_lattice_part(drafter.params, self.target.params, taps, tokens,
                                             jnp.asarray(part), s=drafter.shape, which=which))
                for part in np.split(at, at.shape[1] // ANCHORS, 1)]
        return tuple(np.concatenate(side, 1) for side in zip(*outs, strict=True))

    @staticmethod
    def _record(row: Row, place: int, said: dict) -> Record:
        n = max(0, len(row.reference) - 1)
        heads = {name: tuple(side[place, :n] for side in said[name]) if name in said else None
                 for name in ("wide", "narrow", "mtp")}
        return Record(np.array(row.prompt, np.int32), np.array(row.reference, np.int32), **heads)


def record_all(target: Path, drafters: list[Path], out: Path, *, sets: Path, dtype: str = "auto",
               reference: str = "greedy", cut_loops: bool = False,
               limit: int | None = None) -> None:
    """Record every workload into a folder; one that is there already is left as it is."""
    read = load_target(target)
    recorder = Recorder(read, load_drafters(drafters, read), compute_dtype(dtype))
    workloads = read_workloads(sets, limit)
    for name in track(workloads, "recording", console=Console(stderr=True)):
        path = out / f"{name}.npz"
        if not path.is_file():
            found = rows_of({name: workloads[name]}, reference, cut_loops)
            save_records(path, recorder.batch([row for _, row in found]))


def main() -> None:
    """Record every workload into a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--drafters", type=Path, nargs="+", required=True,
                        help="the wide one and, if there is one, the narrow one")
    parser.add_argument("--sets", type=Path, default=Path("benchmarks/sets"))
    parser.add_argument("--out", type=Path, required=True, help="folder, kept out of git: 0.4 GB")
    parser.add_argument("--reference", choices=("greedy", "real"), default="greedy")
    parser.add_argument("--cut-loops", action="store_true", help="end references at a loop")
    parser.add_argument("--limit", type=int, help="items of a workload")
    parser.add_argument("--dtype", choices=DTYPES, default="auto")
    args = parser.parse_args()
    record_all(args.target, args.drafters, args.out, sets=args.sets, dtype=args.dtype,
               reference=args.reference, cut_loops=args.cut_loops, limit=args.limit)


if __name__ == "__main__":
    main()
