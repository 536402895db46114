"""Measuring: what a figure is, and how figures become tables and plots."""
