"""scripts/test, from the point on where Python is there: parts, their order, the sum.

A part is one run of ctest or pytest with a JUnit file.  A part that ends without one, or says
that it failed without naming a failed test, counts as one failed test: nothing is lost.

Three lanes run side by side, because a guest has one processor and much of what runs natively
waits for time-outs; lines of the second and third begin with "guests| " and "sanitized| ":

    unit -> integration
    build with sanitizers -> end to end
    (that build is there) -> what runs in it

What reads hostile bytes runs in that build alone, because there a mistake shows; with --all in both.
Whatever lane is free takes the lab's own tests, the simulator, and what is left of the third's.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

from iraid_dev.places import PYTHON, ROOT

from . import lint

LAB_FOLDERS = ("tests/end_to_end",)  # these run inside scripts/lab
NATIVE_FOLDERS = ("tests/unit", "tests/docs", "tests/integration")
GUEST_FOLDERS = ("tests/lab", "tests/simulation")  # beside the others: they start guests themselves, or need no quiet
VALUED_OPTIONS = (
    "-k",
    "-m",
    "-p",
    "-c",
    "-o",
    "-W",
    "-n",
    "-r",
    "--deselect",
    "--ignore",
    "--maxfail",
    "--durations",
    "--timeout",
    "--tb",
)
NOTHING_COLLECTED = 5
STEP_SECONDS_MAX = 900
PART_SECONDS_MAX = {"quick": 120, "normal": 1500, "long": 7200}
FAILURES_MAX, FAILURE_LINES_MAX = 20, 15  # shown again at the end, of each part and of each failure


RUNNING: set[subprocess.Popen[bytes]] = set()


@dataclass
class Choice:
    """What the caller asked for."""

    effort: str = "normal"  # "quick", "normal", "long"
    build: bool = True
    threads: bool = False  # in a build with ThreadSanitizer
    kernel: str = "uml"
    options: list[str] = field(default_factory=list)  # pytest's
    native: list[str] = field(default_factory=list)
    lab: list[str] = field(default_factory=list)

    @property
    def selected(self) -> bool:
        return bool(self.options or self.native or self.lab)

    def limit_seconds(self) -> int:
        """Of a part.  Who selects the long tests by pytest's -m gets the time that --all has."""
        asked = [marks for option, marks in pairwise(self.options) if option == "-m"]
        selects_long = any("long" in marks and "not long" not in marks for marks in asked)
        return PART_SECONDS_MAX["long" if selects_long else self.effort]


@dataclass
class Result:
    part: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""
    failures: list[str] = field(default_factory=list)  # which test, and what it said last


class Parts:
    """Runs parts one after the other and keeps what came out."""

    def __init__(self, choice: Choice, prefix: str = "", clean: bool = True):
        self.choice = choice
        self.prefix = prefix
        self.results: list[Result] = []
        self.folder = Path(os.environ.get("IRAID_TEST_RESULTS", ROOT / "build/test-results"))
        if clean:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)

    def progress(self, text: str) -> None:
        print(f"\n{self.prefix}=== {text}", flush=True)

    def _run(self, words: list[str], environment: dict[str, str], seconds: int) -> int:
        """Status of a command; 124 when it was killed because its time was over."""
        pipe = subprocess.PIPE if self.prefix else None
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=subprocess.STDOUT if pipe else None,
            env=os.environ | environment,
            start_new_session=True,
        )
        RUNNING.add(process)
        over = threading.Event()

        def end() -> None:
            over.set()
            kill_group(process)

        watch = threading.Timer(seconds, end)
        watch.start()
        for line in process.stdout or ():
            print(self.prefix + line.decode(errors="replace").rstrip(), flush=True)
        status = process.wait()
        watch.cancel()
        RUNNING.discard(process)
        return 124 if over.is_set() else status

    def step(self, name: str, words: list[str]) -> bool:
        """Something that is no test, but without which there are none."""
        begin = time.monotonic()
        self.progress(name)
        if self._run(words, {}, STEP_SECONDS_MAX) == 0:
            return True
        self.results.append(Result(name, failed=1, seconds=time.monotonic() - begin, note="did not work"))
        return False

    def program(self, name: str, words: list[str], why: str) -> None:
        """Something that is one test by itself.  No words: it is not there, and why."""
        begin = time.monotonic()
        self.progress(f"{name}: {why}" if why else name)
        status = self._run(words, {}, STEP_SECONDS_MAX) if words else 0
        result = Result(name, note=why or (f"ended with status {status}" if status else ""))
        result.passed, result.failed, result.skipped = int(bool(words) and not status), int(status != 0), int(not words)
        result.seconds = time.monotonic() - begin
        self.results.append(result)

    def tests(self, name: str, words: list[str], junit: Path, environment: dict[str, str] | None = None) -> None:
        begin = time.monotonic()
        self.progress(name)
        limit = self.choice.limit_seconds() + 60
        status = self._run(words, environment or {}, limit)
        result = counted(name, junit)
        result.seconds = time.monotonic() - begin
        if status == NOTHING_COLLECTED and result.passed + result.failed == 0:
            if not self.choice.selected:
                result.failed, result.note = 1, "no tests ran"
        elif status != 0 and result.failed == 0:
            result.failed = 1
            result.note = (
                f"not finished after {limit} s" if status == 124 else f"ended with status {status} and no failed test"
            )
        self.results.append(result)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL.  The lab and the farm see to it that nothing outlives them.  Looks at
    /proc, because somebody else may be waiting for the process just now."""
    deadline = time.monotonic() + 20
    try:
        os.killpg(process.pid, signal.SIGTERM)
        while not has_ended(process.pid):
            if time.monotonic() > deadline:
                os.killpg(process.pid, signal.SIGKILL)
                return
            time.sleep(0.1)
    except ProcessLookupError:
        pass


def has_ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


def end_all(number: int, _frame: object) -> None:
    """On a signal: nothing that was started stays."""
    for process in list(RUNNING):
        kill_group(process)
    print(f"test: ended by signal {number}", flush=True)
    os._exit(128 + number)


def counted(name: str, junit: Path) -> Result:
    """The counts of a JUnit file of pytest or ctest; zeros when there is none."""
    result = Result(name)
    try:
        root = ElementTree.parse(junit).getroot()
    except (OSError, ElementTree.ParseError):
        return result
    suites = [root] if root.tag == "testsuite" else list(root.iter("testsuite"))
    for suite in suites:
        total = int(suite.get("tests", 0))
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
        result.failed += failed
        result.skipped += skipped
        result.passed += max(0, total - failed - skipped)
    result.failures = [failure for case in root.iter("testcase") if (failure := failure_of(case))]
    return result


def failure_of(case: ElementTree.Element) -> str:
    """The name of a failed test and the end of what it said, indented; nothing of one that passed."""
    said = next((found for kind in ("failure", "error") if (found := case.find(kind)) is not None), None)
    if said is None:
        return ""
    text = said.text or case.findtext("system-out") or said.get("message") or ""  # ctest tells it apart
    last = [line for line in text.splitlines() if line.strip()][-FAILURE_LINES_MAX:]
    return "\n    ".join([f"{case.get('classname')}::{case.get('name')}", *last])


# --- what was asked for ---


def parse(words: list[str]) -> Choice:
    choice = Choice()
    rest = iter(words)
    for word in rest:
        if word in ("--quick", "--all"):
            choice.effort = "quick" if word == "--quick" else "long"
        elif word == "--no-deps":
            pass
        elif word == "--thread-sanitize":
            choice.threads = True
        elif word.split("=")[0] == "--suite":
            sys.exit("test: --suite says which Debian is made, so it goes with --clean-root only")
        elif word == "--no-build":
            choice.build = False
        elif word == "--kernel":
            choice.kernel = next(rest, "")
        elif word in VALUED_OPTIONS:
            choice.options += [word, next(rest, "")]
        elif word.startswith("-"):
            choice.options.append(word)
        else:
            sort_selection(word, choice)
    if choice.kernel not in ("uml", "qemu", "host"):
        sys.exit(f"test: --kernel '{choice.kernel}' is none of uml, qemu, host")
    if choice.threads and choice.lab:
        sys.exit(f"test: {choice.lab[0]} runs in the lab, which --thread-sanitize does not build for; name other tests")
    check_options(choice.options)
    return choice


def check_options(options: list[str]) -> None:
    """Pytest knows them, and says so before anything is built."""
    if not options:
        return
    done = subprocess.run(
        [PYTHON, "-B", "-m", "pytest", "--version", *options], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        faults = [line.partition("error: ")[2] for line in done.stderr.splitlines() if "error: " in line]
        sys.exit(f"test: pytest refuses {' '.join(options)}: {'; '.join(faults)}; see scripts/test --help")


def sort_selection(word: str, choice: Choice) -> None:
    path = Path(word.split("::")[0])
    found = next((base / path for base in (Path.cwd(), ROOT) if (base / path).exists()), None)
    if found is None:
        sys.exit(f"test: '{word}' is no path of a test and no option; see scripts/test --help")
    inside = str(found.resolve().relative_to(ROOT)) if found.resolve().is_relative_to(ROOT) else ""
    whole = inside + word[len(word.split("::")[0]) :]
    if inside.startswith(LAB_FOLDERS):
        choice.lab.append(whole)
    elif inside == "tests":
        choice.native += existing(NATIVE_FOLDERS + GUEST_FOLDERS)
        choice.lab += existing(LAB_FOLDERS)
    elif inside:
        choice.native.append(whole)
    else:
        sys.exit(f"test: '{word}' is not in this repository")


def existing(folders: tuple[str, ...]) -> list[str]:
    return [folder for folder in folders if any((ROOT / folder).rglob("test_*.py"))]


def loading_c(folder: str) -> list[str]:
    """Test files that load the product's C code into their own process: the others are Python's alone."""
    return sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("test_*.py") if "pure_library" in path.read_text()
    )


# --- parts ---


def marker_options(choice: Choice, extra: str = "") -> list[str]:
    if "-m" in choice.options:
        return []
    terms = [] if choice.effort == "long" else ["not long"]
    if extra:
        terms.append(extra)
    return ["-m", " and ".join(terms)] if terms else []


def pytest_words(choice: Choice, paths: list[str], junit: Path, extra: str = "") -> list[str]:
    return [
        PYTHON,
        "-B",
        "-m",
        "pytest",
        *paths,
        f"--junitxml={junit}",
        "--durations=5",
        *marker_options(choice, extra),
        *choice.options,
    ]


def run_lint(parts: Parts) -> None:
    for check in lint.checks():
        parts.program(f"python, {check.name}", check.words, check.why)


def run_ctest(parts: Parts, name: str, build: Path, which: str = "") -> None:
    junit = parts.folder / f"{name.replace(' ', '-')}.xml"
    words = [
        "ctest",
        "--test-dir",
        str(build),
        "--output-on-failure",
        "--no-tests=error",
        "--timeout",
        "300",
        "--output-junit",
        str(junit),
        *(["--tests-regex", which] if which else []),
    ]
    parts.tests(name, words, junit, {"ASAN_OPTIONS": "abort_on_error=1", "UBSAN_OPTIONS": "print_stacktrace=1"})


def run_native(parts: Parts, paths: list[str], which: str = "") -> None:
    for path in paths:
        folder = path.split("::")[0].removeprefix("tests/").replace("/", "-").removesuffix(".py")
        junit = parts.folder / f"native-{folder}.xml"
        parts.tests(f"{path}", pytest_words(parts.choice, [path], junit, which), junit)


def run_in_lab(parts: Parts, paths: list[str]) -> None:
    junit = parts.folder / "end-to-end.xml"
    state = parts.folder / "lab"
    words = [
        str(ROOT / "scripts/lab"),
        "--kernel",
        parts.choice.kernel,
        "--state",
        str(state),
        "--share",
        str(parts.folder),
        "--timeout",
        str(parts.choice.limit_seconds()),
        "--",
        *pytest_words(parts.choice, paths, junit),
    ]
    parts.tests("end to end", words, junit)


def sanitized_build() -> Path:
    return Path(os.environ.get("IRAID_ASAN_DIR", ROOT / "build-asan"))


def sanitizer_environment() -> dict[str, str]:
    library = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], check=True, text=True, stdout=subprocess.PIPE
    ).stdout.strip()
    # Python is no sanitized program, so it gets the library first; it never frees all it has.
    return {
        "IRAID_BUILD_DIR": str(sanitized_build()),
        "LD_PRELOAD": os.path.realpath(library),
        "IRAID_EXAMPLES": os.environ.get("IRAID_EXAMPLES", "50"),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "IRAID_SANITIZED": "1",
    }


def run_sanitized(parts: Parts, folder: str, paths: list[str]) -> None:
    if paths:
        junit = parts.folder / f"sanitized-{Path(folder).name}.xml"
        which = "not no_sanitizer" + (" and not once" if parts.choice.effort == "normal" else "")
        parts.tests(
            f"{folder}, sanitized", pytest_words(parts.choice, paths, junit, which), junit, sanitizer_environment()
        )


# Of the C tests, those of code that has threads; and tests that drive the programs with threads.
THREADED_C = "^test_(reactor|event_ring|resolver|journal|rpc|volume_host|iscsi_connection|iscsi_reads)$"
THREADED = (
    "test_control.py",
    "test_members.py",
    "test_restart.py",
    "test_iscsi_admin.py",
    "test_random_io.py::test_healthy",
)


def thread_sanitizer_environment(build: Path) -> dict[str, str]:
    """Python runs without it: nbdkit gets the library, the other programs are linked against it."""
    library = subprocess.run(
        ["gcc", "-print-file-name=libtsan.so"], check=True, text=True, stdout=subprocess.PIPE
    ).stdout.strip()
    return {
        "IRAID_BUILD_DIR": str(build),
        "IRAID_NBDKIT_PRELOAD": os.path.realpath(library),
        "IRAID_SANITIZED": "1",
        "TSAN_OPTIONS": "halt_on_error=1 second_deadlock_stack=1 history_size=5",
    }


def run_thread_sanitized(parts: Parts) -> None:
    """A build and a run of their own: too long for every run, and no other sanitizer goes with it."""
    choice = parts.choice
    build = Path(os.environ.get("IRAID_TSAN_DIR", ROOT / "build-tsan")).resolve()
    words = [str(ROOT / "scripts/build"), "--thread-sanitize", "--directory", str(build)]
    if choice.build and not parts.step("build with ThreadSanitizer", words):
        return
    os.environ.update(thread_sanitizer_environment(build))
    if not choice.selected:
        run_ctest(parts, "threads in C", build, THREADED_C)
    paths = choice.native or [f"tests/integration/{name}" for name in THREADED]
    run_native(parts, paths, "not no_sanitizer")


def run(parts: Parts) -> None:
    choice = parts.choice
    if choice.threads:
        run_thread_sanitized(parts)
        return
    build = Path(os.environ.setdefault("IRAID_BUILD_DIR", str(ROOT / "build")))
    if choice.build and not parts.step("build", [str(ROOT / "scripts/build"), "--directory", str(build)]):
        return
    if choice.native or choice.lab:
        run_native(parts, choice.native)
        if choice.lab:
            run_in_lab(parts, choice.lab)
        return
    if choice.effort == "quick":
        os.environ.setdefault("IRAID_EXAMPLES", "50")  # of each property
        if not choice.options:
            run_ctest(parts, "unit tests in C", build)
        run_native(parts, existing(("tests/unit",)))
        return
    Lanes(parts, build).run()


class Lanes:
    """The second lane makes the build that the third waits for."""

    def __init__(self, parts: Parts, build: Path):
        self.first, self.build = parts, build
        self.second = Parts(parts.choice, prefix="guests| ", clean=False)
        self.third = Parts(parts.choice, prefix="sanitized| ", clean=False)
        self.sanitize = not parts.choice.options  # a selection runs once
        self.built = threading.Event()
        self.last: queue.SimpleQueue[Callable[[Parts], None]] = queue.SimpleQueue()

    def run(self) -> None:
        lanes = [
            threading.Thread(target=self._guarded, args=(parts, work))
            for parts, work in ((self.second, self._run_second), (self.third, self._run_third))
        ]
        for lane in lanes:
            lane.start()
        self._run_first()
        for lane in lanes:
            lane.join()
        self.first.results += self.second.results + self.third.results

    def _guarded(self, parts: Parts, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a thread's end would be no failure otherwise
            parts.results.append(Result(f"lane {parts.prefix.rstrip('| ')}", failed=1, note=repr(error)))
        finally:
            self.built.set()

    def _run_first(self) -> None:
        if self.sanitize:
            run_ctest(self.first, "unit tests in C", self.build)
        also_sanitized = self.sanitize and self.first.choice.effort == "normal"
        run_native(self.first, existing(NATIVE_FOLDERS), "not sanitized_alone" if also_sanitized else "")
        self.built.wait()
        self._run_last(self.first)

    def _run_second(self) -> None:
        self._build_sanitized()
        run_in_lab(self.second, existing(LAB_FOLDERS))
        self._run_last(self.second)

    def _run_third(self) -> None:
        self.built.wait()
        self._run_last(self.third)

    def _build_sanitized(self) -> None:
        if self.sanitize and (
            not self.first.choice.build
            or self.second.step(
                "build with sanitizers",
                [str(ROOT / "scripts/build"), "--sanitize", "--jobs", "1", "--directory", str(sanitized_build())],
            )
        ):
            self.last.put(
                lambda parts: run_sanitized(parts, "tests/integration", existing(("tests/integration",)))
            )  # the longest first
            self.last.put(lambda parts: run_ctest(parts, "unit tests in C, sanitized", sanitized_build()))
            self.last.put(lambda parts: run_sanitized(parts, "tests/unit", loading_c("tests/unit")))
            self.last.put(run_lint)
        for folder in reversed(existing(GUEST_FOLDERS)):
            self.last.put(partial(run_native, paths=[folder]))
        self.built.set()

    def _run_last(self, parts: Parts) -> None:
        while True:
            try:
                part = self.last.get_nowait()
            except queue.Empty:
                return
            part(parts)


def closing(parts: Parts) -> int:
    print(f"\n{'part':<44}{'passed':>8}{'failed':>8}{'skipped':>8}{'seconds':>9}")
    for result in parts.results:
        print(
            f"{result.part[:43]:<44}{result.passed:>8}{result.failed:>8}{result.skipped:>8}"
            f"{result.seconds:>9.1f}  {result.note}".rstrip()
        )
    for result in parts.results:
        for failure in result.failures[:FAILURES_MAX]:
            print(f"{result.part}: {failure}")
        if len(result.failures) > FAILURES_MAX:
            print(f"{result.part}: {len(result.failures) - FAILURES_MAX} more failures")
    passed = sum(result.passed for result in parts.results)
    failed = sum(result.failed for result in parts.results)
    skipped = sum(result.skipped for result in parts.results)
    if passed + failed == 0:
        print("test: no tests ran, which is no success; is the selection right?")
        failed = 1
    if failed:
        print(f"test: JUnit files and the lab's state are in {parts.folder}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed else 0


def main(words: list[str]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end_all)
    parts = Parts(parse(words))
    run(parts)
    return closing(parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
