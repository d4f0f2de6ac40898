"""Checks run by hand: fixtures made with other implementations, comparisons against them."""
