"""scripts/bench --profile papers: the experiments of the two papers, on links that are shaped.

experiments   what they are (tests/bench/papers.py runs them in the lab)    rig   what they are done on
files         those with file systems and programs
model         what the papers' formulas say    report   tables and plots, the papers' beside ours
options       what may be chosen               run      the command on the host
"""
