"""The `iraid` command.

    cli      what is typed (click)           report   what is shown (rich)
    client   the control socket (JSON-RPC)   model    what crosses it
    target   LIO: the only user of rtslib    export_plan, saved   what target does and keeps
    chap     secrets files                   units    sizes

Commands that touch members are carried out by the handler; this package asks it and shows the
answer.  Only export, unexport and grow do work of their own.
"""

__version__ = "0.1.0"
