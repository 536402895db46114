"""scripts/demo, and what scripts/bench has in common with it: host.py and table.py run outside the lab, the rest inside."""
