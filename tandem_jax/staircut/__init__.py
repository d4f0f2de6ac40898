"""StairCut: what to spend on the next round, decided on the host from measured prices."""
