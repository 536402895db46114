"""The bus of a gateway: nobody may hold up tcmu-runner by a name that it asks.  On a dbus-daemon of the test's own, with
Debian's policy for tcmu-runner.
"""

import re
import shutil
import subprocess
from pathlib import Path

import dbus.bus
import pytest
from control_peer import ROOT

OURS = ROOT / "config/dbus-1/iraid.conf"
STOCK = Path("/usr/share/dbus-1/system.conf")
THEIRS = [
    path
    for folder in ("/etc/dbus-1/system.d", "/usr/share/dbus-1/system.d")
    for path in (Path(folder) / "tcmu-runner.conf",)
    if path.exists()
]
SERVICE = "org.kernel.TCMUService1"
HANDLER = f"{SERVICE}.HandlerManager1.mine"

pytestmark = pytest.mark.skipif(
    not (shutil.which("dbus-daemon") and shutil.which("setpriv") and STOCK.exists() and THEIRS),
    reason="dbus-daemon, setpriv or tcmu-runner is not installed",
)


@pytest.fixture
def bus(tmp_path):
    """bus(*policies) -> its address.  Configured as the system's, with these policies in this order."""
    started = []

    def start(*policies):
        # A socket's path is short, and others than root reach it.
        folder = Path(subprocess.check_output(["mktemp", "-d", "/tmp/iraid-bus-XXXXXX"], text=True).strip())
        folder.chmod(0o755)
        text = re.sub(
            r"<(user|pidfile|servicehelper)>.*?</\1>|<fork/>|<syslog/>|<include .*?</include>", "", STOCK.read_text()
        )
        text = text.replace("<standard_system_servicedirs/>", "")
        text = re.sub(r"<listen>.*?</listen>", f"<listen>unix:path={folder}/bus</listen>", text)
        includes = "".join(f"<include>{path}</include>" for path in policies)
        text = re.sub(r"<includedir>system\.d</includedir>", includes, text)
        text = re.sub(r"<includedir>.*?</includedir>", "", text)
        (tmp_path / "bus.conf").write_text(text)
        daemon = subprocess.Popen(
            ["dbus-daemon", f"--config-file={tmp_path / 'bus.conf'}", "--nofork", "--print-address"],
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append((daemon, folder))
        return daemon.stdout.readline().strip()

    yield start
    for daemon, folder in started:
        daemon.terminate()
        daemon.wait(10)
        shutil.rmtree(folder)


def call(address, user, destination, path, member, *arguments):
    """Status and what was answered."""
    done = subprocess.run(
        [
            *(["setpriv", f"--reuid={user}", "--clear-groups"] if user != "root" else []),
            *["dbus-send", f"--bus={address}", "--print-reply", "--reply-timeout=500"],
            *[f"--dest={destination}", path, member, *arguments],
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def own(address, user, name):
    bus = "org.freedesktop.DBus"
    return call(address, user, bus, "/", f"{bus}.RequestName", f"string:{name}", "uint32:0")


def ask_runner(address, user, path, member, *arguments):
    """Of a runner that has its name and does not answer."""
    runner = dbus.bus.BusConnection(address)
    runner.request_name(SERVICE)
    try:
        return call(address, user, SERVICE, f"/org/kernel/TCMUService1{path}", f"{SERVICE}{member}", *arguments)
    finally:
        runner.close()


def needs_root():
    if subprocess.check_output(["id", "-u"], text=True).strip() != "0":
        pytest.skip("only root can be another user")


@pytest.mark.parametrize("is_last", [False, True], ids=["before tcmu-runner's", "after tcmu-runner's"])
def test_no_user_becomes_a_handler_whatever_the_order_of_the_files(bus, is_last):
    needs_root()
    address = bus(*([*THEIRS, OURS] if is_last else [OURS, *THEIRS]))
    for user in ("nobody", "root"):
        for name in (HANDLER, HANDLER.rpartition(".")[0]):
            status, said = own(address, user, name)
            assert status != 0 and "AccessDenied" in said, f"{user} owned {name}: {said}"
        register = (".HandlerManager1.RegisterHandler", "string:mine", "string:words")
        status, said = ask_runner(address, user, "/HandlerManager1", *register)
        assert status != 0 and "AccessDenied" in said, said


def test_the_runner_keeps_its_name_and_others_do_not_get_it(bus):
    needs_root()
    address = bus(OURS, *THEIRS)
    assert own(address, "root", SERVICE)[0] == 0
    assert "AccessDenied" in own(address, "nobody", SERVICE)[1]


def test_the_runner_is_asked_by_administrators_as_before(bus):
    said = ask_runner(bus(OURS, *THEIRS), "root", "/iraid", ".CheckConfig", "string:v0")[1]
    assert "NoReply" in said, said


def test_an_administrator_can_allow_it_again(bus, tmp_path):
    local = tmp_path / "system-local.conf"
    text = OURS.read_text()
    local.write_text(text.replace("<deny", "<allow"))
    assert own(bus(OURS, *THEIRS, local), "root", HANDLER)[0] == 0
