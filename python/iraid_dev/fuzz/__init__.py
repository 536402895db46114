"""Fuzz targets under libFuzzer: scripts/fuzz."""
