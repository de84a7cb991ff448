"""Readers of published data sets that the experiments use."""
