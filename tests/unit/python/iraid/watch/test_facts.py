"""What the doctor finds out by itself."""

from __future__ import annotations

import pytest

from iraid.watch import facts


@pytest.mark.parametrize(
    "portal",
    ["a..b:3260", f"{'a' * 70}.example:3260", "127.0.0.1:" + "9" * 5000],
    ids=["an empty label", "a long label", "a long port"],
)
def test_a_portal_that_can_not_be_one_is_not_reachable(portal):
    """As in a volume's file with a fault, of which the doctor is to tell."""
    assert facts.reachable([portal]) == {portal: "no such address"}
