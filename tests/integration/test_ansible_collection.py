"""The Ansible collection as others get it: from its file, from its package and from a checkout.  No engine takes part.

scripts/test tests/integration/test_ansible_collection.py -m long
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import iraid
from iraid_dev.stack.private_gateway import ROOT

CHECKOUT = ROOT / "packaging/ansible"
INSIDE = "ansible_collections/iraid/iraid"
MODULES = sorted(path.stem for path in (CHECKOUT / INSIDE / "plugins/modules").glob("*.py"))
PLAYBOOKS = sorted(path.stem for path in (CHECKOUT / INSIDE / "playbooks").glob("*.yml"))
SPECS = yaml.safe_load((CHECKOUT / INSIDE / "roles/iraid/meta/argument_specs.yml").read_text())["argument_specs"]
BUILD = Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))

pytestmark = [
    pytest.mark.long,
    pytest.mark.no_sanitizer,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        shutil.which("ansible-galaxy") is None, reason="ansible-core is not installed; run scripts/deps --long"
    ),
]


class ControlNode:
    """A user who has configured nothing, and whom no server of collections answers."""

    def __init__(self, home: Path, **settings: str):
        self.home, self.settings = home, settings
        home.mkdir()

    def run(self, *words: str | Path, folder: Path | None = None, good: bool = True) -> str:
        ours = ("ANSIBLE_", "IRAID_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        environment |= {"HOME": str(self.home), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_GALAXY_SERVER": "http://127.0.0.1:1"}
        done = subprocess.run(
            [str(word) for word in words],
            cwd=folder or self.home,
            env=environment | self.settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode == 0) is good, f"{words}: status {done.returncode}\n{done.stdout}"
        return done.stdout

    def answers(self, *words: str) -> dict[str, Any]:
        """Of ansible-doc --json; warnings stand before it."""
        text = self.run(*words)
        return json.loads(text[text.index("{") :])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    subprocess.run([ROOT / "scripts/package", "collection", "--output", folder], check=True, timeout=120)
    (made,) = folder.glob("*.tar.gz")
    assert made.name == f"iraid-iraid-{iraid.__version__}.tar.gz"
    assert sorted(path.name for path in folder.iterdir()) == sorted([made.name, "package.log"])
    return made


@pytest.fixture(scope="module")
def installed(file: Path, tmp_path_factory: pytest.TempPathFactory) -> ControlNode:
    """Who has the collection in a folder, from the file."""
    folder = tmp_path_factory.mktemp("installed")
    ControlNode(folder / "installer").run("ansible-galaxy", "collection", "install", file, "-p", folder / "there")
    assert (folder / "there" / INSIDE / "MANIFEST.json").is_file()
    return ControlNode(folder / "user", ANSIBLE_COLLECTIONS_PATH=str(folder / "there"))


def version_listed(node: ControlNode) -> str:
    words = node.run("ansible-galaxy", "collection", "list", "iraid.iraid").split()
    return words[words.index("iraid.iraid") + 1]


def test_the_file_has_what_is_tracked_and_nothing_else(file: Path) -> None:
    listed = subprocess.run(["git", "ls-files", INSIDE], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    tracked = {str(Path(name).relative_to(INSIDE)) for name in listed.stdout.splitlines()}
    with tarfile.open(file) as opened:
        packed = {member.name for member in opened if member.isfile()}
    assert packed == (tracked - {"galaxy.yml"}) | {"MANIFEST.json", "FILES.json"}


def test_the_installed_collection_says_its_version_and_which_ansible_it_needs(installed: ControlNode) -> None:
    assert version_listed(installed) == iraid.__version__
    there = Path(installed.settings["ANSIBLE_COLLECTIONS_PATH"]) / INSIDE
    assert yaml.safe_load((there / "meta/runtime.yml").read_text()) == {"requires_ansible": ">=2.14.0"}


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_a_playbook_is_found_by_its_name(installed: ControlNode, name: str) -> None:
    inventory = CHECKOUT / "example-pair/inventory.yml"
    said = installed.run("ansible-playbook", "-i", inventory, "--syntax-check", f"iraid.iraid.{name}")
    assert f"/{INSIDE}/playbooks/{name}.yml" in said and str(ROOT) not in said
    for words, hosts in (([], {"gateway1", "gateway2"}), (["-e", "iraid_gateways=gateway2"], {"gateway2"})):
        said = installed.run("ansible-playbook", "-i", inventory, "--list-hosts", *words, f"iraid.iraid.{name}")
        assert set(said.split("hosts (")[1].split()[1:]) == hosts
    here = ("-i", "gateway1,", "-c", "local", "-e", "iraid_gateways=all")
    said = installed.run("ansible-playbook", *here, f"iraid.iraid.{name}", good=False)
    assert f"Validating arguments against arg spec '{name}'" in said and "names of two gateways" in said


def arguments_of(module: str) -> list[str]:
    tree = ast.parse((CHECKOUT / INSIDE / f"plugins/modules/{module}.py").read_text())
    (spec,) = (node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "ARGUMENTS")
    return sorted(ast.literal_eval(key) for key in spec.keys)


def test_ansible_doc_shows_each_module(installed: ControlNode) -> None:
    names = {f"iraid.iraid.{module}": module for module in MODULES}
    shown = installed.answers("ansible-doc", "--json", *names)
    assert set(shown) == set(names)
    for name, module in names.items():
        assert sorted(shown[name]["doc"]["options"]) == arguments_of(module)
        assert shown[name]["doc"]["short_description"] and name in shown[name]["examples"]
        assert shown[name]["return"], name
    assert set(installed.answers("ansible-doc", "--list", "--json", "iraid.iraid")) == set(names)


def test_ansible_doc_shows_the_role_s_variables(installed: ControlNode) -> None:
    shown = installed.answers("ansible-doc", "--type", "role", "--json", "iraid.iraid.iraid")["iraid.iraid.iraid"]
    assert {name: set(one["options"]) for name, one in shown["entry_points"].items()} == {
        name: set(one["options"]) for name, one in SPECS.items()
    }


def played(node: ControlNode, folder: Path, good: bool = True, **play: Any) -> str:
    book = folder / "book.json"
    book.write_text(json.dumps([{"hosts": "all", "gather_facts": False} | play]))
    words = ("-i", "localhost,", "-c", "local", "-e", "ansible_python_interpreter=/usr/bin/python3")
    return " ".join(node.run("ansible-playbook", *words, book, good=good).split())


def role(volumes: list[dict[str, Any]]) -> dict[str, Any]:
    variables = {"iraid_packages": [], "iraid_manage_services": False, "iraid_volumes": volumes}
    return {"roles": [{"role": "iraid.iraid.iraid", "vars": variables}]}


def test_the_installed_role_checks_its_variables(installed: ControlNode, tmp_path: Path) -> None:
    """By its specification, and by filters, which load what modules share."""
    assert "value of level must be one of" in played(installed, tmp_path, False, **role([{"name": "v0", "level": 7}]))
    said = played(installed, tmp_path, False, **role([{"name": "v0", "members": ["disk"] * 3}]))
    assert "iraid_volumes[0] (v0).members[0]" in said and "PORTAL/IQN/LUN" in said


def test_an_installed_module_runs_with_what_modules_share(installed: ControlNode, tmp_path: Path) -> None:
    path = tmp_path / "secrets/v0"
    files = [{"path": str(path), "user": "u", "secret": "wolf-howls-42"}]
    task = {"name": "Write", "iraid.iraid.iraid_secrets": {"files": files}, "no_log": True}
    assert "changed=1" in played(installed, tmp_path, tasks=[task])
    assert path.read_text() == "u\nwolf-howls-42\n"


@pytest.mark.parametrize("example", ["example", "example-pair"])
def test_an_example_of_a_checkout_needs_no_installation(example: str, tmp_path: Path) -> None:
    node = ControlNode(tmp_path / "user")
    node.run("ansible-playbook", "--syntax-check", "site.yml", folder=CHECKOUT / example)
    words = node.run("ansible-galaxy", "collection", "list", "iraid.iraid", folder=CHECKOUT / example)
    assert f"{CHECKOUT}/ansible_collections" in words and iraid.__version__ in words


@pytest.mark.skipif(not (BUILD / "cmake_install.cmake").exists(), reason="there is no build: run scripts/build")
def test_the_package_brings_it_to_where_ansible_looks(tmp_path: Path) -> None:
    install = ["cmake", "--install", BUILD, "--component", "ansible", "--prefix", "/usr"]
    subprocess.run(install, env=os.environ | {"DESTDIR": str(tmp_path)}, check=True, stdout=subprocess.DEVNULL)
    there = "/usr/share/ansible/collections"
    node = ControlNode(tmp_path / "user")
    assert there in node.run("ansible-config", "dump").split("COLLECTIONS_PATHS")[1].split("\n")[0]

    packed = {path.relative_to(tmp_path / there[1:]) for path in tmp_path.glob("usr/share/ansible/**/*.*")}
    assert packed == {path.relative_to(CHECKOUT) for path in (CHECKOUT / INSIDE).rglob("*.*") if path.suffix != ".pyc"}
    node.settings["ANSIBLE_COLLECTIONS_PATH"] = str(tmp_path / there[1:])
    assert version_listed(node) == iraid.__version__
    said = node.run("ansible-playbook", "-i", "gateways,", "--syntax-check", "iraid.iraid.move")
    assert f"{tmp_path}{there}" in said

    # Its examples, copied to where the administrator keeps inventories.
    examples = tmp_path / "usr/share/doc/iraid-ansible/examples"
    assert sorted(path.name for path in examples.iterdir()) == ["example", "example-pair"]
    del node.settings["ANSIBLE_COLLECTIONS_PATH"]
    shutil.copytree(examples / "example", node.home / "mine")
    assert there in node.run("ansible-config", "dump", folder=node.home / "mine").split("COLLECTIONS_PATHS")[1]
