"""What is installed: the `iraid` command, upgrade-runner and the exporter.

    control    what all others stand on: the control socket, its answers, errors, sizes, gateway.conf
    lio        how a volume is exported: LIO's objects, what is planned, done and kept
    watch      how volumes and their machine are, what is wrong, and who is told
    exporter   metrics for Prometheus, and a page; installed by a package of its own
    cli        the commands that are typed, and what a person sees of them

Each imports only what stands above it, as scripts/check-layers sees to it.
Commands that touch members are carried out by the handler; this package asks it and shows the answer.  Only export,
unexport and grow do work of their own.
"""

__version__ = "0.1.0"
