"""scripts/simulate: builds the simulator of tests/simulation, runs it, makes what fails small.

cli   all of it
"""
