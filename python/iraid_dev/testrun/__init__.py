"""scripts/test and scripts/check-layers: what is run where, how it is counted; what may depend on what.

main         parts, their order, the sum    clean_root, enter-root   the same in a Debian with nothing installed
lint         mypy, and ruff or flake8
layers       scripts/check-layers: which layer may use what
"""
