"""What only developers run; nothing of it is installed.

    places    where things of this source tree are
    steps     a program that works in steps, outside of the lab and inside: shows them, keeps them, sums them up
    stack     targets, gateway, LIO, initiator, put up and taken down; a reader of members that is not the product's
    lab       scripts/lab: a real kernel in which a command runs
    bench     scripts/bench      conform   scripts/conformance         demo        scripts/demo
    soak      scripts/soak       testrun   scripts/test, check-layers  simulator   scripts/simulate

places, steps and stack are what the others are made of; beside them demo uses bench.core, for its load, and testrun lab,
for a clean Debian.  scripts/check-layers knows who may import whom.
What runs inside the lab is a program of its own, started by scripts/lab.
"""
