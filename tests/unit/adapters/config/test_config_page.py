"""iraid.conf(5), the samples and the parser have the same keys, defaults, bounds and ways to apply a change."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from control_peer import ROOT

PAGE = (ROOT / "docs/man/iraid.conf.5.scd").read_text()
SECTIONS = {"volume": "KEYS OF A VOLUME", "spares": "[spares]", "notify": "[notify]", "exporter": "[exporter]"}


@pytest.fixture(scope="module")
def keys():
    build = Path(os.environ.get("IRAID_BUILD_DIR") or ROOT / "build")
    engine = build / "handler/adapters/iraid-engine"
    if not engine.exists():
        pytest.skip(f"{engine} is not built")
    return json.loads(subprocess.run([engine, "--print-config-keys"], capture_output=True, check=True).stdout)


def section(heading):
    found = re.search(rf"^##? {re.escape(heading)}\n(.*?)(?=^##? |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found, heading
    return found[1]


def on_page(heading):
    """Key -> its facts in parentheses, of a section of the page."""
    return dict(re.findall(r"^\*(\w+)\*\n\t\((.*)\)$", section(heading), re.MULTILINE))


def facts(key):
    """As the page writes them."""
    if key["key"] == "initiator":  # it depends on the gateway
        return "initiator name; default iqn.2026-01.org.iraid:HOST-GATEWAYID:NAME; applied by: next start"
    bounds = f"{key['min']} to {key['max']}" if key["max"] else None
    return "; ".join(
        fact
        for fact in (
            {"uuid": "UUID"}.get(key["type"], key["type"]),
            "required" if key["required"] else None,
            "list" if key["repeated"] else None,
            f"default {key['default']}" if key["default"] else None,
            f"{bounds} of them" if bounds and key["repeated"] else bounds,
            f"applied by: {key['applies']}",
        )
        if fact
    )


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_has_every_key_with_its_facts_and_no_other(keys, name):
    parsed = {key["key"]: facts(key) for key in keys if key["section"] == name}
    assert parsed
    assert on_page(SECTIONS[name]) == parsed


def test_the_page_names_the_defaults_of_all_volumes(keys):
    assert set(re.findall(r"\*(\w+)\*", section("[volumes]"))) == {
        key["key"] for key in keys if key["section"] == "volumes"
    }


def in_sample(name):
    """Section -> keys, commented or not, with their values."""
    sections, current = {}, None
    for line in (ROOT / "config" / name).read_text().splitlines():
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            current = sections.setdefault(heading[1], {})
        elif item := re.fullmatch(r"#?(\w+) = (.*)", line):
            current[item[1]] = item[2]
    return sections


@pytest.mark.parametrize(("file", "name"), [("volume", "volume.conf.sample"), ("gateway", "gateway.conf.sample")])
def test_the_sample_has_every_key_with_its_default(keys, file, name):
    sample = in_sample(name)
    for key in (key for key in keys if key["file"] == file):
        value = sample[key["section"]].pop(key["key"])
        if key["default"] and key["key"] != "chap_file":
            assert value == key["default"], key["key"]
    assert not any(sample.values()), sample
