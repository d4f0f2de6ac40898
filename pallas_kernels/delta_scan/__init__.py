"""Gated DeltaNet over a draft tree, a committed path, or a long chunk (see README.md)."""
