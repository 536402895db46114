"""Every command that the documentation shows: somewhere it is run, or it is counted with the reason; its syntax is
right, and iraid's part of it is what iraid takes."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click
import packages
import pytest
import test_pages
import test_recovery
import test_two_gateways
from shown import EXCEPTED, PLACES, ROOT, RUN, Block, blocks, pages, tree_commands
from stage import GUIDE

from iraid.cli.main import cli

BLOCKS = [block for page in pages() for block in blocks(page)]
SHELL = [block for block in BLOCKS if block.language != "powershell"]
# Programs of other machines, of packages that no test needs, and of the shell.
ELSEWHERE = {
    "umask": "bash",
    "esxcli": "ESXi",
    "vmkfstools": "ESXi",
    "vmkping": "ESXi",
    "cd": "bash",
    "export": "bash",
    "echo": "bash",
    "apt": "Debian",
    "growpart": "cloud-guest-utils",
    "ethtool": "ethtool",
    "multipathd": "multipath-tools",
    "pcs": "pcs",
    "bpftrace": "bpftrace",
    "perf": "linux-perf",
    "ansible-playbook": "ansible-core",
    "ansible-lint": "ansible-lint",
    "ansible-vault": "ansible-core",
    "ansible-galaxy": "ansible-core",
    "ansible-inventory": "ansible-core",
    "promtool": "prometheus",
    "curl": "curl",
    "chronyc": "chrony",
    "grafana-cli": "grafana",
    "dpkg-buildpackage": "dpkg-dev",
    "rpmbuild": "rpm",
    "dnf": "Fedora",
    "lintian": "lintian",
    "jq": "jq",
    "ping": "iputils-ping",
    "iperf3": "iperf3",
    "qemu-system-x86_64": "qemu-system-x86",
    "tgt-admin": "tgt",
    "ssh": "openssh-client",
    "scp": "openssh-client",
    "nbdinfo": "libnbd-bin",
    "nbdkit": "nbdkit",
    "bridge": "iproute2",
    "mstconfig": "mstflint",
    "vi": "an editor",
    "sensible-editor": "an editor",
    "rsync": "rsync",
    "lvextend": "lvm2",
    "lvcreate": "lvm2",
    "mail": "mailutils or bsd-mailx",
}
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")


def iraid_commands() -> list[tuple[str, list[str]]]:
    found = []
    for block in SHELL:
        for words in block.commands():
            if words[0] == "ssh":  # ssh HOST COMMAND
                words = words[2:]
            if words[0] == "iraid" and words[1:] and not words[1].startswith("-"):
                found.append((str(block), words[1:]))
    return found


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_it_is_said_where_each_block_is_run(block: Block) -> None:
    assert block.where in PLACES, (
        f"{block} shows commands; say where they are run by a line <!-- run: {'|'.join(PLACES)} --> above them"
    )
    if block.where == "example":
        assert block.why, f"{block}: say why it is only an example: <!-- run: example: WHY -->"
    if block.where == "other":
        runner = ROOT / block.why
        assert runner.is_file(), f"{block}: there is no test {block.why}"
        for words in block.commands():
            assert Path(words[0]).name in runner.read_text(), f"{block}: {block.why} does not run {words[0]}"
    assert block.language == "powershell" if block.where == "Windows" else block.language != "powershell"


@pytest.mark.parametrize("block", [block for block in SHELL if block.where not in EXCEPTED[1:]], ids=str)
def test_bash_takes_it(block: Block) -> None:
    done = subprocess.run(
        ["bash", "-n"], input=block.text + "\n", capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), f"{block}\n{done.stderr}"
    for words in block.commands():
        program = words[0]
        assert (
            "/" in program
            or program == "SUBSTITUTED"
            or program in ELSEWHERE
            or program in packages.programs()
            or block.where == "ESXi"
            or program == "iraid"
        ), (
            f"{block}: no package of scripts/deps brings a program {program}; if there is one, give it a line in ELSEWHERE"
        )
        if program.startswith("scripts/"):
            assert (ROOT / program).exists(), f"{block}: {program} is not there"


@pytest.mark.parametrize(
    ("place", "words"), iraid_commands(), ids=lambda value: value if isinstance(value, str) else None
)
def test_iraid_takes_it(place: str, words: list[str]) -> None:
    assert words[0] in cli.commands, f"{place}: iraid has no command {words[0]}"
    given = [word.replace("SUBSTITUTED", "iqn.1993-08.org.debian:01:abc") for word in words[1:]]
    try:
        cli.commands[words[0]].make_context(f"iraid {words[0]}", given)
    except click.UsageError as fault:
        pytest.fail(f"{place}: iraid {' '.join(words)}: {fault.format_message()}")


@pytest.mark.parametrize(
    "page",
    [page for page in pages() if page.suffix == ".md" and "design" not in page.parts],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_what_the_text_says_of_iraid_is_so(page) -> None:
    """`iraid COMMAND --option` in running text: both exist."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for span in re.findall(r"`(?:\w+=\S+ )?iraid ([^`]+)`", text):
        words = span.split()
        if words[0].startswith("-") or words[0] in ("COMMAND", "..."):
            continue
        names = words[0].split("|")
        for name in names:
            assert name in cli.commands, f"`iraid {span}`: there is no command {name}"
            options = {option for one in cli.commands[name].params for option in (*one.opts, *one.secondary_opts)}
            shown = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", span))
            assert shown <= options | {"--help"}, f"`iraid {span}`: {sorted(shown - options)}"


TREE_COMMANDS = [(page, words) for page in pages() if page.suffix == ".md" for words in tree_commands(page)]


def sources_of(program: Path) -> str:
    """The program's text, and that of the modules it is made of, where its options are declared."""
    folders = {
        "scripts/lab": "lab",
        "scripts/bench": "bench",
        "scripts/test": "testrun",
        "scripts/soak": "soak",
        "scripts/demo": "demo",
        "scripts/fuzz": "fuzz",
        "scripts/conformance": "conform",
        "scripts/simulate": "simulator",
        "scripts/analyze": "analyze",
        "scripts/coverage": "coverage",
    }
    parts = [program, *program.parent.glob("*.py")] if program.parent.name != "scripts" else [program]
    name = str(program.relative_to(ROOT))
    if name in folders:
        parts += (ROOT / "python/iraid_dev" / folders[name]).rglob("*.py")
    return "\n".join(part.read_text() for part in parts)


@pytest.mark.parametrize(
    ("page", "words"),
    TREE_COMMANDS,
    ids=lambda value: str(value.relative_to(ROOT)) if isinstance(value, Path) else " ".join(value),
)
def test_programs_of_this_tree_and_their_options_are_there(page: Path, words: list[str]) -> None:
    program = ROOT / words[0].split("::")[0]
    assert program.exists(), f"{page.name}: {words[0]} is not there"
    own = words[1 : words.index("--")] if "--" in words else words[1:]
    if program.is_dir():
        return
    text = sources_of(program)
    for option in (one.split("=")[0] for word in own for one in word.split("|") if one.startswith("--")):
        assert option in text or option.removeprefix("--").replace("-", "_") in text, (
            f"{page.name}: {' '.join(words)}: {words[0]} has no {option}"
        )


def anchors(page) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = [
        re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-") for heading in headings
    ]
    return {*plain, *re.findall(r'<a (?:id|name)="([^"]+)"', page.read_text())}


@pytest.mark.parametrize(
    "page", [page for page in pages() if page.suffix == ".md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_somewhere(page) -> None:
    for file, anchor in LINK.findall(re.sub(r"`[^`\n]*`", "", page.read_text())):
        if "://" in file or file.startswith("mailto:"):
            continue
        to = (page.parent / file) if file else page
        assert to.exists(), f"{page.name}: {file} is not there"
        if anchor and to.suffix == ".md":
            assert anchor[1:] in anchors(to), f"{page.name}: {file or page.name} has no heading {anchor}"


def test_each_section_of_the_recovery_guide_has_a_test() -> None:
    guide = blocks(GUIDE)
    recipes = {block.heading for block in guide if block.where == "native"}
    assert recipes == test_recovery.RECIPES
    assert {block.heading for block in guide} - recipes == {"LIO's configuration is lost"}


def test_each_native_block_of_the_other_pages_is_typed() -> None:
    shown = {(block.page, block.heading) for block in BLOCKS if block.where == "native"}
    sections = test_pages.SECTIONS | test_two_gateways.SECTIONS
    assert {one for one in shown if one[0] != "docs/operating/recovery.md"} == sections


def test_how_many_commands_are_run(figure: Callable[[str, object], None]) -> None:
    """Shown at the end; what is excepted must not become most of it."""
    counts: Counter[str] = Counter()
    for block in BLOCKS:
        place = block.where if block.where not in ("example", "other") else f"{block.where} ({block.why})"
        counts[place] += len(block.commands()) if block.language != "powershell" else len(block.lines())
    for place, count in sorted(counts.items(), key=lambda item: -item[1]):
        figure(place, f"{count} commands")
    run = sum(count for place, count in counts.items() if place.split()[0] in RUN)
    excepted = sum(counts.values()) - run
    figure("of this tree, options looked at", f"{len(TREE_COMMANDS)} commands")
    figure("run", f"{run} of {run + excepted} commands")
    assert run > excepted
