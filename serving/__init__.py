"""The HTTP side: an async front that never imports JAX, and one thread that owns the engine."""

# The folder's name is a common word: whoever imports it can check that it got this one.
ROOM = "tandem"
