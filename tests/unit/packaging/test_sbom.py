"""scripts/sbom: what is packed, linked and built with, as SPDX; the packages' rules make it of what they pack."""

import hashlib
import json
import os
import shutil
import subprocess

import pytest
from control_peer import ROOT

from iraid_dev.stack.private_gateway import build_folder

pytestmark = pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="this is no Debian")


@pytest.fixture
def folder(tmp_path):
    """As debhelper makes it: files of a package, and dpkg's own folder."""
    made = tmp_path / "iraid"
    (made / "usr/bin").mkdir(parents=True)
    (made / "DEBIAN").mkdir()
    (made / "DEBIAN/control").write_text("Package: iraid\n")
    shutil.copy(build_folder() / "handler/adapters/iraid-engine", made / "usr/bin/iraid-engine")
    (made / "usr/bin/text").write_text("not a program\n")
    return made


def sbom(folder, **environment):
    path = folder.parent / "made/iraid.spdx.json"
    words = [ROOT / "scripts/sbom", "--name", "iraid", "--version", "1.2-3", "--output", path, folder]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | environment)
    return done, path


def test_files_and_what_they_load_are_listed(folder):
    done, path = sbom(folder, SOURCE_DATE_EPOCH="86400")
    assert done.returncode == 0, done.stderr
    said = json.loads(path.read_text())
    assert said["spdxVersion"] == "SPDX-2.3" and said["creationInfo"]["created"] == "1970-01-02T00:00:00Z"
    sums = {one["fileName"]: one["checksums"][0]["checksumValue"] for one in said["files"]}
    assert set(sums) == {"./usr/bin/iraid-engine", "./usr/bin/text"}
    assert sums["./usr/bin/text"] == hashlib.sha256(b"not a program\n").hexdigest()
    packages = {one["name"]: one for one in said["packages"]}
    assert {"iraid", "libiscsi7", "libisal2", "libc6", "gcc"} <= packages.keys()
    version = subprocess.check_output(["dpkg-query", "-Wf", "${Version}", "libisal2"], text=True)
    assert packages["libisal2"]["versionInfo"] == version
    linked = {one["relatedSpdxElement"] for one in said["relationships"] if one["relationshipType"] == "DYNAMIC_LINK"}
    assert "SPDXRef-Package-libisal2" in linked and "SPDXRef-Package-gcc" not in linked
    named = {one["SPDXID"] for kind in ("packages", "files") for one in said[kind]} | {"SPDXRef-DOCUMENT"}
    for one in said["relationships"]:
        assert {one["spdxElementId"], one["relatedSpdxElement"]} <= named


def test_the_same_files_make_the_same_list(folder):
    first = sbom(folder, SOURCE_DATE_EPOCH="0")[1].read_text()
    assert sbom(folder, SOURCE_DATE_EPOCH="0")[1].read_text() == first


def test_nothing_to_list_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    done, path = sbom(tmp_path / "empty")
    assert done.returncode != 0 and "install the build there first" in done.stderr and not path.exists()


def test_packages_get_one_of_what_is_packed():
    """Made when files are stripped already: debhelper strips them just before."""
    rules = (ROOT / "debian/rules").read_text()
    assert "scripts/sbom" in rules.partition("override_dh_makeshlibs:")[2].partition("\n\n")[0]
