"""scripts/check-layers finds what it is for, names file and line, and passes on this tree."""

import subprocess

import pytest
from control_peer import ROOT

CHECK = ROOT / "scripts" / "check-layers"


def check(root):
    return subprocess.run([CHECK, root], capture_output=True, text=True, timeout=60)


@pytest.fixture
def tree(tmp_path):
    """Write files under handler/, with a header in each layer."""

    def write(**files):
        for layer in ("pure", "ports", "state", "engine", "adapters"):
            folder = tmp_path / "handler" / layer
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{layer}.h").write_text("int x;\n")
        for name, text in files.items():
            layer, _, file = name.partition("__")
            (tmp_path / "handler" / layer / f"{file}.c").write_text(text)
        return tmp_path

    return write


def test_this_tree_keeps_its_layers():
    done = check(ROOT)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(("name", "line"), [
    ("engine__a", "#include <iscsi/iscsi.h>"), ("adapters__control", "#include <iscsi/scsi-lowlevel.h>"),
    ("engine__a", "#include <pthread.h>"), ("state__a", "pthread_mutex_lock(&lock);"),
    ("pure__a", "time_t now = time(NULL);"), ("engine__a", "clock_gettime(CLOCK_MONOTONIC, &now);"),
    ("engine__a", "\tusleep(10);"), ("engine__a", "#  include <time.h>"),
    ("engine__a", '#include "tcmu-runner.h"'), ("adapters__control", "tcmur_cmd_complete(dev, cmd, 0);"),
    ("engine__a", "epoll_wait(fd, events, 1, -1);"), ("state__a", "int fd = open(path, O_RDWR);"),
    ("pure__a", 'printf("x");'), ("pure__a", "void *p = malloc(5);"),
    ("pure__a", '#include "../engine/engine.h"'), ("pure__a", '#include "state/state.h"'),
    ("state__a", '#include "../engine/engine.h"'), ("engine__a", '#include "../adapters/adapters.h"'),
    ("ports__a", '#include "../engine/engine.h"'), ("adapters__control", "nbdkit_error(0);")])
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
    ("engine__a", "/* calls time() and\n * pthread_create(), or open() */\n// usleep(1);\n"),
    ("engine__a", 'const char *text = "call time(NULL) /* or */ malloc(1)";\nint b;\n'),
    ("engine__a", "ops->open(backend);\nops.open(backend);\nvoid (*open)(int);\nmember_open(m);\n"),
    ("engine__a", "void *p = malloc(1);\n"),
    ("engine__a", '#include "../pure/pure.h"\n#include "engine.h"\n#include "state/state.h"\n'),
    ("adapters__a", '#include "../engine/engine.h"\n#include <syslog.h>\n')])
def test_what_a_layer_may_use_is_not_complained_of(tree, name, text):
    done = check(tree(**{name: text}))
    assert (done.returncode, done.stdout) == (0, "")


def test_rtslib_outside_of_target_is_found(tree):
    root = tree()
    package = root / "python" / "iraid"
    for name in ("cli", "lio"):
        (package / name).mkdir(parents=True)
    (package / "lio" / "target.py").write_text("import rtslib_fb\n")
    assert check(root).returncode == 0
    (package / "cli" / "main.py").write_text("x = 1\nfrom rtslib_fb import RTSRoot\n")
    done = check(root)
    assert (done.returncode, done.stdout) == (
        1, "python/iraid/cli/main.py:2: rtslib belongs to lio/target.py\n")


@pytest.mark.parametrize(("file", "line", "said"), [
    ("iraid/control/client.py", "from iraid.lio import steps", "iraid.control imports iraid.lio"),
    ("iraid/lio/steps.py", "import iraid.watch.top", "iraid.lio imports iraid.watch"),
    ("iraid/cli/main.py", "from iraid_dev.stack.farm import TargetFarm", "iraid.cli imports iraid_dev.stack"),
    ("iraid_dev/bench/core/row.py", "from ..growth import plan", "iraid_dev.bench.core imports iraid_dev.bench.growth"),
    ("iraid_dev/soak/lab.py", "import test_x", "imports test_x of tests")])
def test_an_import_against_the_order_is_found(tree, file, line, said):
    root = tree()
    (root / "tests/unit").mkdir(parents=True)
    (root / "tests/unit/test_x.py").touch()
    path = root / "python" / file
    path.parent.mkdir(parents=True)
    path.write_text("import json\n")
    assert check(root).returncode == 0
    path.write_text(f"if True:\n    {line}\n")
    done = check(root)
    assert (done.returncode, done.stdout) == (1, f"python/{file}:2: {said}\n")


def test_a_tree_without_sources_is_not_a_pass(tmp_path):
    assert check(tmp_path).returncode == 2
