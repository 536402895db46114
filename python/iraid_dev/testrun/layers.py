"""check-layers [ROOT] - dependencies point one way: pure <- state <- engine <- adapters, from room to room, and so for
python's packages.

Looks at every source for includes, imports and calls that its layer, or its room, must not have; comments and strings
don't count.  Prints FILE:LINE: what, and exits with 1 if there was any, with 2 if there was nothing
to look at.  docs/architecture.md shows the rooms.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iraid_dev.places import ROOT

# Layer -> layers whose headers it may include.
LAYERS = {
    "pure": {"pure"},
    "ports": {"pure", "ports"},
    "state": {"pure", "ports", "state"},
    "engine": {"pure", "ports", "state", "engine"},
    "adapters": {"pure", "ports", "state", "engine", "adapters"},
}

# Layer -> its rooms, low to high: a room uses what stands before it, not what stands in its own row or behind.
ROOMS = {
    "engine": (("core",), ("link",), ("record",), ("members",), ("work",), ("io",), ("life",)),
    "adapters": (("base",), ("iscsi",), ("backend", "config", "lun"), ("device",), ("volume",), ("rpc",), ("drivers",)),
}

# Package of python/ -> other packages that it may import; "iraid" is all of what is installed.
_BASE = {"iraid_dev", "iraid_dev.steps", "iraid_dev.stack"}
PACKAGES: dict[str, set[str]] = {
    "iraid": set(),
    "iraid.control": {"iraid"},
    "iraid.lio": {"iraid", "iraid.control"},
    "iraid.watch": {"iraid", "iraid.control", "iraid.lio"},
    "iraid.exporter": {"iraid", "iraid.control", "iraid.watch"},
    "iraid.cli": {"iraid", "iraid.control", "iraid.lio", "iraid.watch", "iraid.exporter"},
    "iraid_dev": set(),
    "iraid_dev.steps": {"iraid_dev"},
    "iraid_dev.stack": {"iraid_dev", "iraid_dev.steps", "iraid.control", "iraid.lio", "iraid.cli"},
    "iraid_dev.lab": {"iraid_dev"},
    "iraid_dev.bench": {f"iraid_dev.bench.{name}" for name in ("core", "papers", "growth", "log", "silent")},
    "iraid_dev.bench.core": _BASE | {"iraid.lio"},
    "iraid_dev.bench.papers": _BASE | {"iraid_dev.bench.core"},
    "iraid_dev.bench.growth": _BASE | {"iraid_dev.bench.core"},
    "iraid_dev.bench.log": _BASE | {"iraid_dev.bench.core", "iraid.control"},
    "iraid_dev.bench.silent": _BASE | {"iraid_dev.bench.core"},
    "iraid_dev.conform": _BASE,
    "iraid_dev.coverage": {"iraid_dev"},
    "iraid_dev.demo": _BASE | {"iraid_dev.bench.core", "iraid_dev.bench.papers"},
    "iraid_dev.analyze": {"iraid_dev"},
    "iraid_dev.fuzz": {"iraid_dev"},
    "iraid_dev.simulator": {"iraid_dev"},
    "iraid_dev.soak": _BASE,
    "iraid_dev.testrun": {"iraid_dev", "iraid_dev.lab"},
}


@dataclass(frozen=True)
class Rule:
    what: str
    pattern: re.Pattern[str]
    allowed: re.Pattern[str]  # paths under handler/ where it may stand


def _rule(what: str, pattern: str, allowed: str) -> Rule:
    return Rule(what, re.compile(pattern), re.compile(allowed))


RULES = (
    _rule(
        "libiscsi belongs to adapters/iscsi, backend and device",
        r"#\s*include\s*<iscsi/|\bscsi_cdb_\w+\s*\(",
        r"adapters/(iscsi|backend|device)/",
    ),
    _rule(
        "tcmu-runner belongs to adapters/drivers/tcmu",
        r'#\s*include\s*[<"](lib)?tcmu|\b(tcmur|tcmulib)_\w+\s*\(',
        r"adapters/drivers/tcmu(_cdb_length)?\.",
    ),
    _rule(
        "nbdkit belongs to adapters/drivers/nbdkit",
        r"#\s*include\s*<nbdkit|\bnbdkit_\w+\s*\(",
        r"adapters/drivers/nbdkit\.",
    ),
    _rule(
        "threads belong to adapters",
        r"#\s*include\s*<(pthread|threads|semaphore)\.h>|\b(pthread|thrd|mtx|sem)_\w+\s*\(",
        r"adapters/",
    ),
    _rule(
        "clocks and sleep belong to adapters",
        r"#\s*include\s*<(time|sys/time|sys/timerfd)\.h>|\b(clock_gettime|gettimeofday|timerfd_\w+"
        r"|nanosleep|clock_nanosleep|usleep|sleep|time|localtime\w*|gmtime\w*|alarm)\s*\(",
        r"adapters/",
    ),
    _rule(
        "waiting for descriptors belongs to adapters",
        r"#\s*include\s*<(poll|sys/epoll|sys/select|sys/eventfd|sys/socket)\.h>"
        r"|\b(poll|ppoll|select|epoll_\w+|eventfd|socket|connect|accept4?)\s*\(",
        r"adapters/",
    ),
    _rule(
        "files belong to adapters",
        r"\b(fopen|open|openat|creat|pread|pwrite|preadv|pwritev|fsync|fdatasync|unlink|rename"
        r"|ioctl)\s*\(|#\s*include\s*<(fcntl|sys/ioctl|sys/stat)\.h>",
        r"adapters/",
    ),
    _rule(
        "output belongs to adapters (log through the engine's port)",
        r"\b(printf|fprintf|puts|fputs|perror|syslog|vsyslog)\s*\(",
        r"adapters/",
    ),
    _rule(
        "the pure layer allocates nothing",
        r"\b(malloc|calloc|realloc|reallocarray|aligned_alloc|posix_memalign|strdup|asprintf|mmap)"
        r"\s*\(",
        r"(state|ports|engine|adapters)/",
    ),
)
_INCLUDE = re.compile(r'#\s*include\s*"([^"]+)"')
_DEFINITION = re.compile(r"^([^\s].*)\n([a-z_]\w*)\(", re.MULTILINE)  # its type stands on the line before
_CALL = re.compile(r"(?<![\w.>])([a-z_]\w*)\s*\(")
_NOISE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_RTSLIB = re.compile(r"^\s*(import|from)\s+rtslib")


def code_only(text: str) -> str:
    """Comments and literals blanked, but for the names in #include; line numbers stay."""

    def blank(matched: re.Match[str]) -> str:
        line_start = text.rfind("\n", 0, matched.start()) + 1
        if re.match(r"\s*#\s*include\s*$", text[line_start : matched.start()]):
            return matched[0]
        return re.sub(r"[^\n]", " ", matched[0])

    return _NOISE.sub(blank, text)


def faults_of_source(handler: Path, file: Path) -> Iterator[tuple[int, str]]:
    inside = file.relative_to(handler)
    layer = inside.parts[0]
    for number, line in enumerate(code_only(file.read_text()).splitlines(), 1):
        for rule in RULES:
            # A member of a struct (ops->open(...)) is no call of the function with that name.
            found = next(
                (
                    m
                    for m in rule.pattern.finditer(line)
                    if not re.search(r"(->|\.)\s*$", line[: m.start()]) and not _is_pointer_member(line, m)
                ),
                None,
            )
            if found and not rule.allowed.match(inside.as_posix()):
                yield number, f"'{found[0].strip()}': {rule.what}"
        include = _INCLUDE.search(line)
        if include and (other := _layer_of(handler, file, include[1])):
            if other in LAYERS and other not in LAYERS[layer]:
                yield number, f"{layer} includes '{include[1]}' of {other}"


@dataclass(frozen=True)
class Room:
    """A folder of a layer that has rooms."""

    layer: str
    name: str

    @property
    def rank(self) -> int:
        return next(i for i, row in enumerate(ROOMS[self.layer]) if self.name in row)

    def may_use(self, other: "Room") -> bool:
        return self.layer != other.layer or self == other or other.rank < self.rank


def room_of(handler: Path, file: Path) -> Room | None:
    parts = file.relative_to(handler).parts
    return Room(parts[0], parts[1]) if parts[0] in ROOMS and len(parts) > 2 else None


def faults_of_rooms(handler: Path, sources: list[Path]) -> Iterator[tuple[Path, int, str]]:
    """Files that stand in no room; includes and calls of rooms that stand higher, or beside."""
    texts = {file: code_only(file.read_text()) for file in sources if file.relative_to(handler).parts[0] in ROOMS}
    homes: dict[str, Room] = {}
    for file, text in texts.items():
        room = room_of(handler, file)
        if room is None or not any(room.name in row for row in ROOMS[room.layer]):
            yield file, 1, "it stands in none of the rooms of docs/architecture.md"
        elif file.suffix == ".c":
            homes |= {
                matched[2]: room
                for matched in _DEFINITION.finditer(text)
                if not matched[1].startswith(("static", "typedef", "#"))
            }
    for file, text in texts.items():
        room = room_of(handler, file)
        if room is None or not any(room.name in row for row in ROOMS[room.layer]):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            include = _INCLUDE.search(line)
            target = _target_of(handler, file, include[1]) if include else None
            other = room_of(handler, target) if target else None
            if include and other and not room.may_use(other):
                yield file, number, f"{room.name} includes '{include[1]}' of {other.name}"
            for called in _CALL.findall(line):
                if called in homes and not room.may_use(homes[called]):
                    yield file, number, f"{room.name} calls {called}() of {homes[called].name}"


def _is_pointer_member(line: str, matched: re.Match[str]) -> bool:
    """`void (*open)(...)`: its name is followed by a bracket that closes, not by one that opens."""
    return line[: matched.start()].rstrip().endswith("(*")


def _target_of(handler: Path, file: Path, include: str) -> Path | None:
    """The header of ours that is included, found as the compiler does it."""
    for base in (file.parent, handler):
        target = (base / include).resolve()
        if target.is_file() and target.is_relative_to(handler.resolve()):
            return handler / target.relative_to(handler.resolve())
    return None


def _layer_of(handler: Path, file: Path, include: str) -> str | None:
    """A header that isn't there (yet) goes by the folder it names."""
    if target := _target_of(handler, file, include):
        return target.relative_to(handler).parts[0]
    return next((part for part in Path(include).parts[:-1] if part in LAYERS), None)


def faults_of_python(root: Path) -> Iterator[str]:
    package = root / "python" / "iraid"
    for file in sorted(package.rglob("*.py")):
        if file == package / "lio" / "target.py":
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if _RTSLIB.match(line):
                yield f"{file.relative_to(root)}:{number}: rtslib belongs to lio/target.py"
    tests = {file.stem for file in (root / "tests").rglob("*.py")} | {"tests"}
    for file in sorted((root / "python").rglob("*.py")):
        for number, text in faults_of_imports(root / "python", file, tests - set(sys.stdlib_module_names)):
            yield f"{file.relative_to(root)}:{number}: {text}"


def faults_of_imports(python: Path, file: Path, tests: set[str]) -> Iterator[tuple[int, str]]:
    here = ".".join(file.relative_to(python).parent.parts)
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for name in imported(node, here):
            there = _package_of(name)
            if name.partition(".")[0] in tests:
                yield node.lineno, f"imports {name} of tests"
            elif there is not None and there != here and there not in PACKAGES.get(here, set()):
                yield node.lineno, f"{here} imports {there}"


def imported(node: ast.AST, here: str) -> list[str]:
    """Full names of what an import statement brings, modules or not."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    words = here.split(".")
    base = words[: len(words) + 1 - node.level] if node.level else []
    return [".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names]


def _package_of(name: str) -> str | None:
    """The longest that the name begins with."""
    found = [package for package in PACKAGES if f"{name}.".startswith(f"{package}.")]
    return max(found, key=len) if found else None


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else ROOT
    handler = root / "handler"
    sources = sorted(file for layer in LAYERS for suffix in ("*.c", "*.h") for file in (handler / layer).rglob(suffix))
    if not sources:
        print(f"check-layers: no sources under {handler}", file=sys.stderr)
        return 2
    faults = [
        f"{file.relative_to(root)}:{number}: {text}"
        for file in sources
        for number, text in faults_of_source(handler, file)
    ]
    faults += [f"{file.relative_to(root)}:{number}: {text}" for file, number, text in faults_of_rooms(handler, sources)]
    faults += faults_of_python(root)
    for fault in faults:
        print(fault)
    return 1 if faults else 0
