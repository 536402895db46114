"""scripts/bench: iraid beside its peers, measured; figures become tables and plots.

    cli      the command
    core     what is measured how, on which systems, and what a figure is
    papers   the papers' experiments, on shaped links
    growth   what a volume costs as members, volumes, jobs and bytes become more
    log      what the write log costs, beside md's bitmap, PPL and journal
    silent   how long commands take when a target answers nothing any more

papers, growth, log and silent use core, and not each other.
"""
