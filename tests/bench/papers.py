#!/usr/bin/python3
"""The papers' experiments; see python/iraid_dev/bench/papers/experiments.py.

    scripts/lab --share DIR -- tests/bench/papers.py [--only NAME,NAME] [--seconds N] [--json DIR/FILE]     --help lists them
    tests/bench/papers.py --report FILE... --out DIR      tables and plots of what was written (no lab needed)

A report, not a test.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "python"))

if __name__ == "__main__":
    if "--report" in sys.argv[1:]:
        from iraid_dev.bench.papers.report import main  # matplotlib, which the lab need not have
    else:
        from iraid_dev.bench.papers.experiments import main
    sys.exit(main(sys.argv[1:]))
