"""Draft trees on the host: numpy only, so the front doors can show them without jax."""

from tandem_jax.tree.draft_tree import SOURCES, DraftTree
from tandem_jax.tree.render import TreeView, render_html, render_text

__all__ = ["SOURCES", "DraftTree", "TreeView", "render_html", "render_text"]
