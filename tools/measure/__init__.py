"""Measurements of the demo family: acceptance, gates of the target, and their plots."""
