"""Random trees, from bushes to chains, for tests of losslessness."""

from random import Random

from tandem_jax.drafters.protocol import TruthDrafter
from tandem_jax.drafters.wrong import other_token
from tandem_jax.tree import DraftTree

_P_TRUE = 0.6  # chance that a node below a right path carries the right token, if still free


class RandomTreeDrafter(TruthDrafter):
    """Trees of random size, shape, tokens and scores; with a truth, some paths are right.

    Some rounds are declined, so that drafted and plain rounds mix.
    """

    name = "random"

    def propose(self, anchor: int, max_nodes: int, max_depth: int) -> DraftTree | None:
        truth = self.upcoming(anchor, max(max_depth, 0))
        rng = Random(self.round_seed())
        n_draft = rng.randint(0, max_nodes) if min(max_nodes, max_depth) > 0 else 0
        if n_draft == 0:
            return None
        bushiness = rng.random()
        tokens, parents, scores, depths = [anchor], [-1], [1.0], [0]
        is_right, taken = [True], [set()]
        while len(tokens) <= n_draft:
            free = [
                node
                for node in range(len(tokens))
                if depths[node] < max_depth and len(taken[node]) < self._vocab_size
            ]
            if not free:
                break
            parent = rng.choice(free) if rng.random() < bushiness else free[-1]
            level = depths[parent]
            right = truth[level] if is_right[parent] and level < len(truth) else None
            if right is None or right in taken[parent] or rng.random() > _P_TRUE:
                token = other_token(rng, self._vocab_size, taken[parent])
            else:
                token = right
            taken[parent].add(token)
            tokens.append(token)
            parents.append(parent)
            scores.append(scores[parent] * rng.random())
            depths.append(level + 1)
            is_right.append(token == right)
            taken.append(set())
        return DraftTree.from_parents(tokens, parents, scores=scores, source="random")
