"""The doors through which models reach kernels; the only importer of `pallas_kernels`."""
