"""scripts/soak: faults drawn at random, under load that verifies.

cli       the command: builds, starts the lab (or runs here), sums up, shows the table
report    what a run found out, its file, and the table over several runs
driver    draws faults and carries them out on a stage until the time is over or a byte is wrong
lab       the stage inside scripts/lab: tcmu-runner, LIO, open-iscsi, targets behind links
native    the stage without a kernel: nbdkit and targets on loopback
"""
