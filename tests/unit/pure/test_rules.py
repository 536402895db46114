"""Each mutant of handler/pure/mutant.h breaks a rule of docs/design/rules.md, and each rule has one or says why not."""

import re

from iraid_dev.places import ROOT

MUTANT = re.compile(r'X\(\w+, "([\w-]+)", (\d+),')
PAGE = (ROOT / "docs/design/rules.md").read_text()


def rules() -> dict[int, str]:
    found = re.findall(r"^## (\d+)\. (.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert len(found) > 15
    return {int(number): text for number, text in found}


def test_rules_have_mutants_or_say_why_not():
    code = {name: int(rule) for name, rule in MUTANT.findall((ROOT / "handler/pure/mutant.h").read_text())}
    assert len(code) > 300
    without = {number for number, text in rules().items() if "No mutants" in text}
    assert set(code.values()) == set(rules()) - without


def test_what_code_cites_is_a_rule():
    cited = {
        int(number)
        for folder in ("handler", "python", "tests")
        for path in (ROOT / folder).rglob("*.[chp]*")
        if path.suffix in (".c", ".h", ".py")
        for number in re.findall(r"DESIGN,? rule (\d+)", path.read_text())
    }
    assert cited and cited <= set(rules())
