"""docs/design/rules.md has each mutant of handler/pure/mutant.h under its rule, and no others."""

import re

from iraid_dev.places import ROOT

MUTANT = re.compile(r'X\(\w+, "([\w-]+)", (\d+),')


def mutants_of_the_page() -> dict[str, int]:
    page = (ROOT / "docs/design/rules.md").read_text()
    found: dict[str, int] = {}
    for number, text in re.findall(r"^## (\d+)\. (.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL):
        _, _, names = text.partition("\nMutants: ")
        found |= {name: int(number) for name in re.findall(r"[\w-]+", names)}
    return found


def test_rules_have_the_mutants_that_the_code_has():
    code = {name: int(rule) for name, rule in MUTANT.findall((ROOT / "handler/pure/mutant.h").read_text())}
    assert len(code) > 300
    assert mutants_of_the_page() == code


def test_what_code_cites_is_a_rule():
    page = (ROOT / "docs/design/rules.md").read_text()
    numbers = {int(number) for number in re.findall(r"^## (\d+)\. ", page, re.MULTILINE)}
    cited = {
        int(number)
        for folder in ("handler", "python", "tests")
        for path in (ROOT / folder).rglob("*.[chp]*")
        if path.suffix in (".c", ".h", ".py")
        for number in re.findall(r"DESIGN,? rule (\d+)", path.read_text())
    }
    assert cited and cited <= numbers
