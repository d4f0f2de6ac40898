"""Builds the corpus and the tokenizer of the demo model, trains it and exports it."""
