"""The rules of docs/design/write-log.md on a model of a volume: with all of them nothing goes wrong, and without any
one something does."""

from __future__ import annotations

import pytest
from log_model import RULES, Model, Wrong

LIVES = 1500
LEVELS = (5, 6)


def fault(level: int, seed: int, rules: frozenset[str]) -> str:
    try:
        Model(level, seed, rules).run()
    except Wrong as what:
        return f"level {level}, seed {seed}: {what}"
    return ""


@pytest.mark.parametrize("level", LEVELS)
def test_no_life_goes_wrong(level: int) -> None:
    assert [said for seed in range(LIVES) if (said := fault(level, seed, RULES))] == []


@pytest.mark.parametrize("rule", sorted(RULES))
def test_without_a_rule_a_life_goes_wrong(rule: str) -> None:
    assert any(fault(level, seed, RULES - {rule}) for seed in range(LIVES) for level in LEVELS)
