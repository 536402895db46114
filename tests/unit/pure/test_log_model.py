"""The rules of docs/design/write-log.md on a model of a volume: with all of them nothing goes wrong, and without any
one something does."""

from __future__ import annotations

import pytest
from log_model import RULES, Model, Wrong

LIVES = 4000
ON_LEVEL_6_ONLY = {
    "heal": "on level 5 a log has one copy, and nobody more can be lost",
    "known if bare": "level 5 is bare as soon as one is out",
    "live rows logged": "on level 5 the same member is out until the log is empty",
    "emptied": "on level 5 nobody is out behind it",
}


def wrong(level: int, seed: int, rules: frozenset[str]) -> str:
    try:
        Model(level, seed, rules).run()
    except Wrong as what:
        return f"seed {seed}: {what}"
    return ""


@pytest.mark.parametrize("level", [5, 6])
def test_no_life_goes_wrong(level: int) -> None:
    assert [said for seed in range(LIVES) if (said := wrong(level, seed, RULES))] == []


@pytest.mark.parametrize("level", [5, 6])
@pytest.mark.parametrize("rule", sorted(RULES))
def test_without_a_rule_a_life_goes_wrong(rule: str, level: int) -> None:
    found = any(wrong(level, seed, RULES - {rule}) for seed in range(LIVES))
    assert found != (level == 5 and rule in ON_LEVEL_6_ONLY), ON_LEVEL_6_ONLY.get(rule, "no life went wrong")
