"""scripts/bench --profile growth: throughput, processor time and memory against members, volumes, jobs and size.

plan   the experiments    run   on the host    inside   in the lab    memory   of a process    report   tables
"""
