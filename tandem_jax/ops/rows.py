"""Rows in tiles of a fixed size (see `pallas_kernels.row_tiles`)."""

from pallas_kernels.row_tiles import row_tiles

__all__ = ["row_tiles"]
