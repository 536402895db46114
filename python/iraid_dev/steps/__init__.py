"""A program that works in steps: scripts/demo and scripts/bench, outside of the lab and inside it.

progress   the steps as they are shown, and the report of them that crosses the border of the lab
host       outside: the build, the lab, where a run comes from
table      the steps as a table, at the end
"""
