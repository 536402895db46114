"""scripts/check-layers finds what it is for, names file and line, and passes on this tree."""

import re
import runpy
import subprocess

import pytest
from control_peer import ROOT

CHECK = ROOT / "scripts" / "check-layers"


def check(root):
    return subprocess.run([CHECK, root], capture_output=True, text=True, timeout=60)


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def tree(tmp_path):
    """Write files under handler/, with a header in each layer."""

    def write(**files):
        for header in ("pure/pure", "ports/ports", "state/state", "engine/core/core", "engine/io/io", "adapters/adapters"):
            _write(tmp_path / "handler" / f"{header}.h", "int x;\n")
        for name, text in files.items():
            _write(tmp_path / "handler" / (name.replace("__", "/") + ".c"), text)
        return tmp_path

    return write


def test_this_tree_keeps_its_layers():
    done = check(ROOT)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(("name", "line"), [
    ("engine__core__a", "#include <iscsi/iscsi.h>"), ("adapters__control", "#include <iscsi/scsi-lowlevel.h>"),
    ("engine__core__a", "#include <pthread.h>"), ("state__a", "pthread_mutex_lock(&lock);"),
    ("pure__a", "time_t now = time(NULL);"), ("engine__core__a", "clock_gettime(CLOCK_MONOTONIC, &now);"),
    ("engine__core__a", "\tusleep(10);"), ("engine__core__a", "#  include <time.h>"),
    ("engine__core__a", '#include "tcmu-runner.h"'), ("adapters__control", "tcmur_cmd_complete(dev, cmd, 0);"),
    ("engine__core__a", "epoll_wait(fd, events, 1, -1);"), ("state__a", "int fd = open(path, O_RDWR);"),
    ("pure__a", 'printf("x");'), ("pure__a", "void *p = malloc(5);"),
    ("pure__a", '#include "engine/core/core.h"'), ("pure__a", '#include "state/state.h"'),
    ("state__a", '#include "engine/core/core.h"'), ("engine__core__a", '#include "adapters/adapters.h"'),
    ("ports__a", '#include "engine/core/core.h"'), ("adapters__control", "nbdkit_error(0);")])
def test_what_a_layer_must_not_use_is_found_with_file_and_line(tree, name, line):
    done = check(tree(**{name: f"/* a comment */\nint a;\n{line}\n"}))
    path = name.replace("__", "/")
    assert done.returncode == 1
    assert done.stdout.startswith(f"handler/{path}.c:3: ")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(("name", "text"), [
    ("adapters__backend_iscsi", "#include <iscsi/iscsi.h>\n"),
    ("adapters__iscsi_admin", "#include <iscsi/iscsi.h>\n"),
    ("adapters__scsi_command", "#include <iscsi/iscsi.h>\n"),
    ("adapters__tcmu_glue", '#include "tcmu-runner.h"\nint a = tcmu_x();\n'),
    ("adapters__reactor", "#include <pthread.h>\n#include <sys/epoll.h>\n"),
    ("engine__core__a", "/* calls time() and\n * pthread_create(), or open() */\n// usleep(1);\n"),
    ("engine__core__a", 'const char *text = "call time(NULL) /* or */ malloc(1)";\nint b;\n'),
    ("engine__core__a", "ops->open(backend);\nops.open(backend);\nvoid (*open)(int);\nmember_open(m);\n"),
    ("engine__core__a", "void *p = malloc(1);\n"),
    ("engine__core__a", '#include "pure/pure.h"\n#include "core.h"\n#include "state/state.h"\n'),
    ("adapters__a", '#include "engine/core/core.h"\n#include <syslog.h>\n')])
def test_what_a_layer_may_use_is_not_complained_of(tree, name, text):
    done = check(tree(**{name: text}))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(("name", "line", "said"), [
    ("engine__core__op", '#include "../io/io.h"', "core includes '../io/io.h' of io"),
    ("engine__record__marks", '#include "engine/io/io.h"', "record includes 'engine/io/io.h' of io"),
    ("engine__core__op", "\tif (request_end(request) != 0)", "core calls request_end() of io"),
    ("engine__work__scrub", "\trequest_end(request);", "work calls request_end() of io"),
    ("engine__engine", "int b;", "it stands in none of the rooms of docs/architecture.md"),
    ("engine__attic__old", "int b;", "it stands in none of the rooms of docs/architecture.md")])
def test_what_a_room_must_not_use_is_found_with_file_and_line(tree, name, line, said):
    done = check(tree(engine__io__request="int\nrequest_end(struct request *request)\n{\n}\n", **{name: f"{line}\n"}))
    assert (done.returncode, done.stdout) == (1, f"handler/{name.replace('__', '/')}.c:1: {said}\n")


@pytest.mark.parametrize(("name", "text"), [
    ("engine__io__b", '#include "io.h"\n#include "engine/core/core.h"\n\trequest_end(a);\n'),
    ("engine__core__b", "static int\nrequest_start(int a)\n{\n}\n/* request_end(request) */\n\tops->request_end(request);\n")])
def test_what_a_room_may_use_is_not_complained_of(tree, name, text):
    done = check(tree(engine__io__request="int\nrequest_end(struct request *request)\n{\n}\n", **{name: text}))
    assert (done.returncode, done.stdout) == (0, "")


def test_the_architecture_shows_the_rooms_in_their_order():
    """One table: `room/` a row, low to high; rooms of one rank share a row."""
    namespace = runpy.run_path(str(CHECK), run_name="check_layers")
    page = (ROOT / "docs/architecture.md").read_text()
    for layer, rows in namespace["ROOMS"].items():
        _, _, text = page.partition(f"## Rooms of handler/{layer}\n")
        shown = [tuple(re.findall(r"`(\w+)/`", line.split("|")[1])) for line in text.partition("\n## ")[0].splitlines()
                 if line.startswith("| `")]
        assert shown == list(rows)


def test_rtslib_outside_of_target_is_found(tree):
    root = tree()
    package = root / "scripts" / "iraidlib"
    package.mkdir(parents=True)
    (package / "target.py").write_text("import rtslib_fb\n")
    assert check(root).returncode == 0
    (package / "cli.py").write_text("x = 1\nfrom rtslib_fb import RTSRoot\n")
    done = check(root)
    assert (done.returncode, done.stdout) == (
        1, "scripts/iraidlib/cli.py:2: rtslib belongs to target.py\n")


def test_a_tree_without_sources_is_not_a_pass(tmp_path):
    assert check(tmp_path).returncode == 2
