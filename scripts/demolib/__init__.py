"""scripts/demo and scripts/bench: host.py and table.py run outside the lab, the rest inside."""
