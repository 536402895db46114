"""scripts/bench --profile log: what the write log costs, beside what md has against the write hole.

plan   systems, cells, the estimate    run   on the host    inside   in the lab    systems   how they are put up    report   tables
"""
