"""scripts/bench --profile silent: how long commands take when a target answers nothing any more, beside md and LVM.

plan   systems, what is set    run   on the host    inside   in the lab    systems   how they are put up    report   tables
"""
