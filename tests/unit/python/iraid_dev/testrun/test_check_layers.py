"""scripts/check-layers finds what it is for, names file and line, and passes on this tree."""

import re
import subprocess

import pytest
from control_peer import ROOT

from iraid_dev.testrun.layers import ROOMS

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
        for header in (
            "pure/pure",
            "ports/ports",
            "state/state",
            "engine/core/core",
            "engine/io/io",
            "adapters/base/base",
            "adapters/rpc/rpc",
        ):
            _write(tmp_path / "handler" / f"{header}.h", "int x;\n")
        for name, text in files.items():
            _write(tmp_path / "handler" / (name.replace("__", "/") + ".c"), text)
        return tmp_path

    return write


def test_this_tree_keeps_its_layers():
    done = check(ROOT)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("engine__core__a", "#include <iscsi/iscsi.h>"),
        ("adapters__rpc__socket", "#include <iscsi/scsi-lowlevel.h>"),
        ("engine__core__a", "#include <pthread.h>"),
        ("state__a", "pthread_mutex_lock(&lock);"),
        ("pure__a", "time_t now = time(NULL);"),
        ("engine__core__a", "clock_gettime(CLOCK_MONOTONIC, &now);"),
        ("engine__core__a", "\tusleep(10);"),
        ("engine__core__a", "#  include <time.h>"),
        ("engine__core__a", '#include "tcmu-runner.h"'),
        ("adapters__rpc__socket", "tcmur_cmd_complete(dev, cmd, 0);"),
        ("engine__core__a", "epoll_wait(fd, events, 1, -1);"),
        ("state__a", "int fd = open(path, O_RDWR);"),
        ("pure__a", 'printf("x");'),
        ("pure__a", "void *p = malloc(5);"),
        ("pure__a", '#include "engine/core/core.h"'),
        ("pure__a", '#include "state/state.h"'),
        ("state__a", '#include "engine/core/core.h"'),
        ("engine__core__a", '#include "adapters/base/base.h"'),
        ("ports__a", '#include "engine/core/core.h"'),
        ("adapters__rpc__socket", "nbdkit_error(0);"),
    ],
)
def test_what_a_layer_must_not_use_is_found_with_file_and_line(tree, name, line):
    done = check(tree(**{name: f"/* a comment */\nint a;\n{line}\n"}))
    path = name.replace("__", "/")
    assert done.returncode == 1
    assert done.stdout.startswith(f"handler/{path}.c:3: ")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("adapters__backend__io", "#include <iscsi/iscsi.h>\n"),
        ("adapters__device__device", "#include <iscsi/iscsi.h>\n"),
        ("adapters__iscsi__scsi", "#include <iscsi/iscsi.h>\n"),
        ("adapters__drivers__tcmu", '#include "tcmu-runner.h"\nint a = tcmu_x();\n'),
        ("adapters__base__reactor", "#include <pthread.h>\n#include <sys/epoll.h>\n"),
        ("engine__core__a", "/* calls time() and\n * pthread_create(), or open() */\n// usleep(1);\n"),
        ("engine__core__a", 'const char *text = "call time(NULL) /* or */ malloc(1)";\nint b;\n'),
        ("engine__core__a", "ops->open(backend);\nops.open(backend);\nvoid (*open)(int);\nmember_open(m);\n"),
        ("engine__core__a", "void *p = malloc(1);\n"),
        ("engine__core__a", '#include "pure/pure.h"\n#include "core.h"\n#include "state/state.h"\n'),
        ("adapters__base__a", '#include "engine/core/core.h"\n#include <syslog.h>\n'),
    ],
)
def test_what_a_layer_may_use_is_not_complained_of(tree, name, text):
    done = check(tree(**{name: text}))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("adapters__base__log", '#include "../rpc/rpc.h"', "base includes '../rpc/rpc.h' of rpc"),
        ("adapters__config__keys", '#include "adapters/rpc/rpc.h"', "config includes 'adapters/rpc/rpc.h' of rpc"),
        ("adapters__iscsi__login", "\tif (rpc_answer(call) != 0)", "iscsi calls rpc_answer() of rpc"),
        ("adapters__backend__io", "\tlun_size(backend);", "backend calls lun_size() of lun"),
        ("engine__core__op", '#include "../io/io.h"', "core includes '../io/io.h' of io"),
        ("engine__record__marks", '#include "engine/io/io.h"', "record includes 'engine/io/io.h' of io"),
        ("engine__work__scrub", "\trequest_end(request);", "work calls request_end() of io"),
        ("engine__engine", "int b;", "it stands in none of the rooms of docs/architecture.md"),
        ("adapters__attic__old", "int b;", "it stands in none of the rooms of docs/architecture.md"),
    ],
)
def test_what_a_room_must_not_use_is_found_with_file_and_line(tree, name, line, said):
    done = check(
        tree(
            adapters__rpc__answer="int\nrpc_answer(struct call *call)\n{\n}\n",
            adapters__lun__size="int\nlun_size(int a)\n{\n}\n",
            engine__io__request="int\nrequest_end(struct request *request)\n{\n}\n",
            **{name: f"{line}\n"},
        )
    )
    assert (done.returncode, done.stdout) == (1, f"handler/{name.replace('__', '/')}.c:1: {said}\n")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("adapters__rpc__b", '#include "rpc.h"\n#include "adapters/base/base.h"\n\tanswer(a);\n'),
        (
            "adapters__base__b",
            "static int\nrpc_helper(int a)\n{\n}\n/* rpc_answer(call) */\n\tops->rpc_answer(call);\n",
        ),
    ],
)
def test_what_a_room_may_use_is_not_complained_of(tree, name, text):
    done = check(tree(adapters__rpc__answer="int\nrpc_answer(struct call *call)\n{\n}\n", **{name: text}))
    assert (done.returncode, done.stdout) == (0, "")


def test_the_architecture_shows_the_rooms_in_their_order():
    """One table: `room/` a row, low to high; rooms of one rank share a row."""
    page = (ROOT / "docs/architecture.md").read_text()
    for layer, rows in ROOMS.items():
        _, _, text = page.partition(f"## Rooms of handler/{layer}\n")
        shown = [
            tuple(re.findall(r"`(\w+)/`", line.split("|")[1]))
            for line in text.partition("\n## ")[0].splitlines()
            if line.startswith("| `")
        ]
        assert shown == list(rows)


def test_rtslib_outside_of_target_is_found(tree):
    root = tree()
    package = root / "python" / "iraid"
    for name in ("cli", "lio"):
        (package / name).mkdir(parents=True)
    (package / "lio" / "target.py").write_text("import rtslib_fb\n")
    assert check(root).returncode == 0
    (package / "cli" / "main.py").write_text("x = 1\nfrom rtslib_fb import RTSRoot\n")
    done = check(root)
    assert (done.returncode, done.stdout) == (1, "python/iraid/cli/main.py:2: rtslib belongs to lio/target.py\n")


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("iraid/control/client.py", "from iraid.lio import steps", "iraid.control imports iraid.lio"),
        ("iraid/lio/steps.py", "import iraid.watch.top", "iraid.lio imports iraid.watch"),
        ("iraid/cli/main.py", "from iraid_dev.stack.farm import TargetFarm", "iraid.cli imports iraid_dev.stack"),
        (
            "iraid_dev/bench/core/row.py",
            "from ..growth import plan",
            "iraid_dev.bench.core imports iraid_dev.bench.growth",
        ),
        ("iraid_dev/soak/lab.py", "import test_x", "imports test_x of tests"),
    ],
)
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
