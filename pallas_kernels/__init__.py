"""Operations on plain arrays: one folder per op, each with a reference that reads like its formula.

This room knows shapes and devices, and no model and no request. `tandem_jax.ops` is its only user.
"""

ROOM = "tandem"
