"""Attention of draft-tree rows, and of a prefill chunk, over a paged KV cache (see README.md)."""
