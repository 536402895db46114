"""scripts/conformance: what initiators and their test suite find wrong with our LUNs that LIO's own do right.

cli         the command                      inside      its part in the lab
cu_run, cu_output   iscsi-test-cu: which tests, and what it says
results     what came out, and the tables    tools_run   --tools: tests/end_to_end/test_stock_tools.py on each LUN
"""
