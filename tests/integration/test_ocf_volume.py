"""The resource agent ocf:iraid:volume on real gateways and targets, called as Pacemaker calls it."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iraid_dev.places import ROOT
from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import COMMAND_SECONDS_MAX, Gateway, build_folder, wait_until

pytestmark = pytest.mark.once  # a shell's script: what it asks of the handler test_roles.py does, too

AGENT = ROOT / "packaging/ocf/volume"
SUCCESS, GENERIC, ARGS, INSTALLED, CONFIGURED, NOT_RUNNING, PROMOTED, FAILED_PROMOTED = 0, 1, 2, 5, 6, 7, 8, 9
NEVER = "-INFINITY"
DONE = subprocess.CompletedProcess

FAKE_CRM = """#!/bin/sh
case $0 in
*/crm_node) cat "$(dirname "$0")/crm_node$1" ;;
*) echo "$*" >>"$(dirname "$0")/scores" ;;
esac
"""


class Agent:
    """Of one gateway.  Pacemaker's programs are recorded fakes, the clock is a file where a test sets it."""

    def __init__(self, gateway: Gateway, folder: Path):
        self.gateway, self.folder = gateway, folder
        for name in ("bin", "libexec", "sbin", "rsctmp"):
            (folder / name).mkdir(parents=True)
        (folder / "bin/iraid").symlink_to(ROOT / "scripts/iraid")
        (folder / "libexec/volume-standing").symlink_to(ROOT / "scripts/volume-standing")
        for name in ("iraid-engine", "iraid-look"):
            (folder / "libexec" / name).symlink_to(build_folder().resolve() / "handler/adapters" / name)
        for fake in ("sbin/crm_attribute", "sbin/crm_node"):
            (folder / fake).write_text(FAKE_CRM)
            (folder / fake).chmod(0o755)
        self.sees("here", "there")
        self.program = folder / "volume"
        shutil.copyfile(AGENT, self.program)
        self.program.chmod(0o755)

    def sees(self, *nodes: str) -> None:
        """Of the nodes of its cluster, here and there."""
        (self.folder / "sbin/crm_node-p").write_text(" ".join(nodes) + "\n")
        (self.folder / "sbin/crm_node-l").write_text("1 here member\n2 there lost\n")

    def at(self, seconds: int) -> None:
        (self.folder / "bin/date").write_text(f"#!/bin/sh\necho {seconds}\n")
        (self.folder / "bin/date").chmod(0o755)

    @property
    def scores(self) -> list[str]:
        """Set so far; -D: taken away."""
        path = self.folder / "sbin/scores"
        return (
            [line.split()[-1].removeprefix("--update=") for line in path.read_text().splitlines()]
            if path.exists()
            else []
        )

    def environment(self, interval: int = 5, **parameters: str | int) -> dict[str, str]:
        given = {"volume": "v0", "answer_timeout": 1, "settle": 30} | parameters
        return self.gateway.environment() | {
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "IRAID_LIBEXEC_DIR": str(self.folder / "libexec"),
            "HA_RSCTMP": str(self.folder / "rsctmp"),
            "HA_SBIN_DIR": str(self.folder / "sbin"),
            "OCF_ROOT": "/usr/lib/ocf",
            "OCF_RESOURCE_INSTANCE": "v0",
            "OCF_RESKEY_crm_feature_set": "3.16.2",
            "OCF_RESKEY_CRM_meta_interval": str(interval * 1000),
            "OCF_RESKEY_CRM_meta_timeout": "60000",
            **{f"OCF_RESKEY_{name}": str(value) for name, value in given.items()},
        }

    def __call__(self, action: str, interval: int = 5, **parameters: str | int) -> DONE[str]:
        return subprocess.run(
            [self.program, action],
            env=self.environment(interval, **parameters),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )

    def must(self, expected: int, *actions: str, **more: str | int) -> str:
        """What the last of them said."""
        for action in actions:
            done = self(action, **more)
            assert done.returncode == expected, (action, done.returncode, done.stdout + done.stderr)
        return done.stderr

    def probe(self) -> int:
        return self("monitor", interval=0).returncode

    def role(self) -> tuple[str | None, str]:
        status = self.gateway.status("v0")
        return status["role"], status["state"]


@pytest.fixture(autouse=True)
def _resource_agents() -> None:
    if not Path("/usr/lib/ocf/lib/heartbeat/ocf-shellfuncs").exists():
        pytest.skip("resource-agents is not installed: run scripts/deps")


@pytest.fixture
def farm(make_farm: Callable[..., TargetFarm]) -> TargetFarm:
    return make_farm(3)


@pytest.fixture
def pair(
    gateway: Gateway, make_gateway: Callable[[], Gateway], farm: TargetFarm, tmp_path: Path
) -> tuple[Agent, Agent]:
    """Both gateways run, and v0 is stopped on both."""
    gateway.create("v0", farm.members(), 5, "64K", "--give-up", "2")
    gateway.must("wait", "v0")
    gateway.must("stop", "v0")
    second = make_gateway()
    shutil.copytree(gateway.config, second.config, dirs_exist_ok=True)
    second.configure("v0", initiator="iqn.2026-01.org.iraid:other:v0")
    second.start()
    return Agent(gateway, tmp_path / "agent0"), Agent(second, tmp_path / "agent1")


@pytest.fixture
def agent(pair: tuple[Agent, Agent]) -> Agent:
    return pair[0]


def restart_engine(gateway: Gateway) -> None:
    """What systemd and LIO's restore do: volumes start, if nothing says that they must not."""
    gateway.start("--start-all")


# --- what Pacemaker does all day ---


def test_a_volume_is_started_promoted_demoted_and_stopped(agent: Agent) -> None:
    assert agent.probe() == NOT_RUNNING
    agent.must(SUCCESS, "start", "monitor", "start")
    assert agent.role() == ("standby", "standby") and agent.probe() == SUCCESS
    agent.must(SUCCESS, "promote")
    agent.must(PROMOTED, "monitor")
    agent.must(SUCCESS, "promote")
    assert agent.role() == ("active", "active") and agent.probe() == PROMOTED
    agent.must(SUCCESS, "demote", "monitor", "demote")
    assert agent.role() == ("standby", "standby")
    agent.must(SUCCESS, "promote", "stop", "stop")
    assert agent.role() == ("standby", "standby") and agent.probe() == NOT_RUNNING
    agent.must(NOT_RUNNING, "monitor")
    assert set(agent.scores) == {"300", "350", "-D"} and agent.scores[-1] == "-D"


def test_the_other_gateway_takes_it_over_and_the_first_one_demotes_itself(pair: tuple[Agent, Agent]) -> None:
    first, second = pair
    first.must(SUCCESS, "start", "promote")
    second.must(SUCCESS, "start", "promote")
    wait_until(lambda: first.role()[0] == "standby", "the first one to be fenced off")
    first.sees("here")  # the cluster is split: the other one can't be seen, and lives
    said = first.must(FAILED_PROMOTED, "monitor")
    assert "another gateway" in said, said
    assert first.scores[-1] == NEVER
    first.must(SUCCESS, "demote", "stop", "start")
    assert first.scores[-1] == NEVER
    first.must(SUCCESS, "monitor")
    assert first.scores[-1] == NEVER
    # If Pacemaker wants it all the same, it takes nothing away.
    said = first.must(GENERIC, "promote")
    assert "another gateway" in said, said
    second.must(PROMOTED, "monitor")
    # The nodes see each other again; or somebody says that all is well.
    first.must(SUCCESS, "demote")
    first.sees("here", "there")
    first.at(2_000_000_000)
    first.must(SUCCESS, "monitor")
    first.at(2_000_000_031)
    first.must(SUCCESS, "monitor")
    assert first.scores[-1] == "300"
    first.must(SUCCESS, "promote")
    wait_until(lambda: second.role()[0] == "standby", "the second one to be fenced off")


def test_a_cleanup_gives_a_lonely_fenced_gateway_its_score_back(pair: tuple[Agent, Agent]) -> None:
    first, second = pair
    first.must(SUCCESS, "start", "promote")
    second.must(SUCCESS, "start", "promote")
    wait_until(lambda: first.role()[0] == "standby", "the first one to be fenced off")
    first.sees("here")
    first.must(FAILED_PROMOTED, "monitor")
    first.must(SUCCESS, "demote", "monitor")
    assert first.scores[-1] == NEVER
    assert first.probe() == SUCCESS
    first.must(SUCCESS, "promote")


def test_what_is_active_without_pacemaker_is_seen(agent: Agent) -> None:
    agent.gateway.must("start", "v0")
    assert agent.probe() == PROMOTED
    agent.must(SUCCESS, "demote", "monitor", "stop")
    agent.must(SUCCESS, "start", "promote")
    agent.gateway.must("standby", "v0")  # by hand
    said = agent.must(FAILED_PROMOTED, "monitor")
    assert "standby" in said
    agent.must(SUCCESS, "demote", "monitor")


# --- the runner ---


@pytest.mark.parametrize("action", ["demote", "stop"])
def test_a_dead_runner_s_successor_does_not_start_the_volume(agent: Agent, action: str) -> None:
    agent.must(SUCCESS, "start", "promote")
    agent.gateway.kill()
    said = agent.must(FAILED_PROMOTED, "monitor")
    assert "dead" in said, said
    agent.must(SUCCESS, action, action)
    restart_engine(agent.gateway)
    assert agent.role() == ("standby", "standby")
    assert agent.probe() == (SUCCESS if action == "demote" else NOT_RUNNING)
    agent.must(SUCCESS, "start", "promote")
    agent.must(PROMOTED, "monitor")


def test_a_runner_that_is_back_in_time_is_no_failure(agent: Agent) -> None:
    agent.must(SUCCESS, "start", "promote")
    agent.gateway.kill()
    looks = subprocess.Popen([agent.program, "monitor"], env=agent.environment(answer_timeout=60))
    try:
        restart_engine(agent.gateway)
        assert looks.wait(COMMAND_SECONDS_MAX) == PROMOTED
    finally:
        looks.kill()
        looks.wait()
    assert agent.role()[0] == "active"


def test_a_volume_on_standby_stays_so_when_its_runner_is_another_one(agent: Agent) -> None:
    agent.must(SUCCESS, "start")
    agent.gateway.kill()
    agent.must(NOT_RUNNING, "monitor")
    restart_engine(agent.gateway)
    agent.must(SUCCESS, "monitor")
    assert agent.role() == ("standby", "standby")


def test_a_runner_that_died_active_does_not_get_the_volume_back_from_the_one_that_was_promoted(
    pair: tuple[Agent, Agent],
) -> None:
    """Nothing was recorded here: the members refuse it."""
    first, second = pair
    first.must(SUCCESS, "start", "promote")
    first.gateway.kill()
    second.must(SUCCESS, "start", "promote")
    restart_engine(first.gateway)
    wait_until(lambda: first.role()[1] not in ("assembling", "active"), "the members to refuse it")
    second.must(PROMOTED, "monitor")
    said = first.must(FAILED_PROMOTED, "monitor")
    assert "another gateway" in said, said
    first.must(SUCCESS, "demote", "monitor")
    # Nor when it is given back: the turn is Pacemaker's to give.
    second.must(SUCCESS, "demote")
    first.gateway.kill()
    restart_engine(first.gateway)
    assert first.role() == ("standby", "standby")


@pytest.mark.parametrize("action", ["demote", "stop"])
def test_a_runner_that_hangs_is_killed_rather_than_believed(agent: Agent, action: str) -> None:
    agent.must(SUCCESS, "start", "promote")
    engine = agent.gateway.engine
    assert engine is not None
    engine.popen.send_signal(signal.SIGSTOP)
    said = agent.must(FAILED_PROMOTED, "monitor")
    assert "hangs" in said, said
    agent.must(SUCCESS, action)
    assert engine.popen.wait(COMMAND_SECONDS_MAX) == -signal.SIGKILL
    agent.gateway.engine = None
    restart_engine(agent.gateway)
    assert agent.role() == ("standby", "standby")


@pytest.mark.parametrize("hangs", [True, False])
def test_nobody_waits_for_a_runner_that_gave_its_turn_back_by_force(agent: Agent, hangs: bool) -> None:
    """Pacemaker promotes no other gateway as long as a monitor waits here."""
    agent.at(1000)
    agent.must(SUCCESS, "start", "promote")
    engine = agent.gateway.engine
    assert engine is not None
    engine.popen.send_signal(signal.SIGSTOP if hangs else signal.SIGKILL)
    agent.must(FAILED_PROMOTED, "monitor")
    agent.must(SUCCESS, "demote")
    engine.popen.wait(COMMAND_SECONDS_MAX)
    agent.gateway.engine = None
    agent.must(SUCCESS, "monitor", answer_timeout=60)  # at once
    agent.at(1119)
    agent.must(SUCCESS, "monitor", answer_timeout=60)
    assert agent.scores[-1] == "-INFINITY"
    assert agent.probe() == NOT_RUNNING
    for later in (1120, 999):  # 999: the clock was set back
        agent.at(later)
        agent.must(NOT_RUNNING, "monitor")
    restart_engine(agent.gateway)
    agent.must(SUCCESS, "monitor")
    assert agent.role() == ("standby", "standby")
    agent.must(SUCCESS, "stop")
    agent.must(NOT_RUNNING, "monitor")


def test_a_promoted_runner_is_waited_for_though_its_last_turn_ended_by_force(agent: Agent) -> None:
    agent.at(1000)
    agent.must(SUCCESS, "start", "promote")
    agent.gateway.kill()
    agent.must(FAILED_PROMOTED, "monitor")
    agent.must(SUCCESS, "demote")
    restart_engine(agent.gateway)
    agent.must(SUCCESS, "promote")
    asked = agent.folder / "asked"
    program = agent.folder / "libexec/volume-standing"
    program.unlink()
    program.write_text(f'#!/bin/sh\necho "$@" >>{asked}\nexec {ROOT}/scripts/volume-standing "$@"\n')
    program.chmod(0o755)
    agent.gateway.kill()
    agent.must(FAILED_PROMOTED, "monitor")
    assert asked.read_text() == "v0 1 1\n"  # the last is for how long


def test_a_hanging_runner_on_standby_is_an_error_and_is_replaced(agent: Agent) -> None:
    agent.must(SUCCESS, "start")
    engine = agent.gateway.engine
    assert engine is not None
    engine.popen.send_signal(signal.SIGSTOP)
    assert "hangs" in agent.must(GENERIC, "monitor")
    agent.must(SUCCESS, "stop")
    assert engine.popen.wait(COMMAND_SECONDS_MAX) == -signal.SIGKILL
    agent.gateway.engine = None


def uuid_of(gateway: Gateway) -> str:
    found = re.search(r"^uuid\s*=\s*(\S+)", (gateway.config / "volumes/v0.conf").read_text(), re.MULTILINE)
    assert found
    return found[1]


def answers(agent: Agent, script: str) -> None:
    """In place of the program that asks."""
    program = agent.folder / "libexec/volume-standing"
    program.unlink(missing_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize("says", ["echo refuses; echo too many connections", "echo no module; exit 1"])
def test_who_can_not_be_asked_is_not_believed_to_be_gone(agent: Agent, says: str) -> None:
    agent.must(SUCCESS, "start", "promote")
    answers(agent, says)
    for action in ("monitor", "start"):
        said = agent.must(GENERIC, action)
        assert "hangs" not in said, said
    agent.must(SUCCESS, "stop")  # by iraid standby, which was not refused
    assert agent.role() == ("standby", "standby")


def test_who_can_not_be_asked_for_a_moment_is_asked_again(agent: Agent) -> None:
    """An upgrade puts the program's parts in place one after the other."""
    agent.must(SUCCESS, "start", "promote")
    once = agent.folder / "once"
    answers(agent, f'[ -e {once} ] && exec {ROOT}/scripts/volume-standing "$@"; : >{once}; echo no module; exit 1')
    agent.must(PROMOTED, "monitor")
    once.unlink()
    agent.must(SUCCESS, "stop")
    assert agent.role() == ("standby", "standby")


def test_a_demotion_waits_for_what_somebody_else_has_begun(agent: Agent, farm: TargetFarm) -> None:
    """Sessions end when members have answered, and one of them stands still."""
    agent.must(SUCCESS, "start", "promote")
    farm.stop(0)
    by_hand = subprocess.Popen(
        [agent.folder / "bin/iraid", "standby", "v0"], env=agent.environment(), stdout=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: agent.role()[0] == "standby", "the other one to have asked")
        agent.must(SUCCESS, "demote")
        assert agent.role() == ("standby", "standby")
        assert by_hand.wait(COMMAND_SECONDS_MAX) == 0
    finally:
        farm.cont(0)
        by_hand.kill()
        by_hand.wait()


def test_another_gateway_has_its_turn_before_the_one_that_failed(agent: Agent) -> None:
    agent.at(1000)
    agent.must(SUCCESS, "start", "promote")
    agent.gateway.must("standby", "v0")  # by hand: a failure, for Pacemaker
    agent.must(FAILED_PROMOTED, "monitor")
    agent.must(SUCCESS, "demote", "stop", "start", "monitor")
    assert agent.scores[-1] == NEVER
    agent.at(1029)
    agent.must(SUCCESS, "monitor")
    assert agent.scores[-1] == NEVER
    agent.at(1030)
    agent.must(SUCCESS, "monitor")
    assert agent.scores[-1] == "300"


def test_who_sees_no_other_gateway_tries_again_at_once(agent: Agent) -> None:
    agent.must(SUCCESS, "start", "promote")
    agent.sees("here")
    agent.gateway.must("standby", "v0")
    agent.must(FAILED_PROMOTED, "monitor")
    agent.must(SUCCESS, "demote")
    assert agent.scores[-1] == "300"


def test_a_stop_that_can_t_be_sure_fails(agent: Agent) -> None:
    """Whoever has the volume does not go when it is killed: here its lock is held by another than it says."""
    agent.must(SUCCESS, "start", "promote")
    agent.gateway.kill()
    text = agent.program.read_text()
    agent.program.write_text(text.replace("KILL_SECONDS=10", "KILL_SECONDS=1"))
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        with (agent.gateway.folder / "run" / f"{uuid_of(agent.gateway)}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write(f"tcmu-runner pid {sleeper.pid}\n")
            lock.flush()
            said = agent.must(GENERIC, "stop")
            assert str(sleeper.pid) in said and "can't be killed" in said, said
        assert sleeper.wait() == -signal.SIGKILL
    agent.must(SUCCESS, "stop")


def test_a_stop_that_can_t_be_recorded_fails(agent: Agent) -> None:
    agent.must(SUCCESS, "start", "promote")
    agent.gateway.kill()
    shutil.rmtree(agent.gateway.state / "standby", ignore_errors=True)
    (agent.gateway.state / "standby").write_text("no folder")
    said = agent.must(GENERIC, "stop")
    assert "recorded" in said, said
    (agent.gateway.state / "standby").unlink()
    agent.must(SUCCESS, "stop")


@pytest.mark.parametrize("killed", [False, True], ids=["runs", "killed"])
def test_a_stop_does_not_mind_a_fault_in_the_volume_s_file(agent: Agent, killed: bool) -> None:
    agent.must(SUCCESS, "start", "promote")
    file = agent.gateway.config / "volumes" / "v0.conf"
    file.write_text(file.read_text() + "hegde = 1\n")
    if killed:
        agent.gateway.kill()
    agent.must(SUCCESS, "demote", "stop")
    assert list((agent.gateway.state / "standby").iterdir())


def test_a_record_without_a_runner_tells_bad_input(agent: Agent) -> None:
    for words, status, said in (
        ([], 2, "needs the volume's name"),
        (["v9"], 1, "v9"),
        (["../v0"], 1, "../v0"),
        (["v0", "v1"], 2, "v1"),
    ):
        done = subprocess.run(
            [agent.folder / "libexec/iraid-engine", "--record-standby", *words],
            env=agent.environment(),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == status and said in done.stderr, done
    assert not (agent.gateway.state / "standby").exists()


def test_a_start_waits_for_the_runner(agent: Agent) -> None:
    agent.gateway.stop()
    starts = subprocess.Popen([agent.program, "start"], env=agent.environment(answer_timeout=60))
    try:
        restart_engine(agent.gateway)
        assert starts.wait(COMMAND_SECONDS_MAX) == SUCCESS
    finally:
        starts.kill()
        starts.wait()
    assert agent.role() == ("standby", "standby")


def test_a_start_without_a_runner_fails_soon_since_no_other_gateway_is_promoted_meanwhile(agent: Agent) -> None:
    agent.gateway.stop()
    said = agent.must(GENERIC, "start")
    assert "does not answer" in said, said
    assert agent.probe() == NOT_RUNNING


# --- scores ---


def test_a_member_that_is_not_reached_costs_score_where_it_can_t_move_the_volume_at_once(
    pair: tuple[Agent, Agent], farm: TargetFarm
) -> None:
    first, second = pair
    for agent in pair:
        agent.at(1000)
        agent.must(SUCCESS, "start")
    first.must(SUCCESS, "promote")
    first.must(PROMOTED, "monitor")
    farm.kill(2)
    for seconds, promoted, passive in ((1001, "350", "200"), (1030, "350", "200"), (1031, "250", "200")):
        first.at(seconds)
        second.at(seconds)
        first.must(PROMOTED, "monitor")
        second.must(SUCCESS, "monitor")
        assert (first.scores[-1], second.scores[-1]) == (promoted, passive), seconds
    farm.restart(2)
    for seconds, promoted, passive in ((2001, "350", "200"), (2030, "350", "200"), (2031, "350", "300")):
        first.at(seconds)
        second.at(seconds)
        first.must(PROMOTED, "monitor")
        second.must(SUCCESS, "monitor")
        assert (first.scores[-1], second.scores[-1]) == (promoted, passive), seconds


def test_a_suspended_volume_may_move_sooner_and_is_no_failure(agent: Agent, farm: TargetFarm) -> None:
    agent.at(1000)
    agent.must(SUCCESS, "start", "promote")
    agent.must(PROMOTED, "monitor")
    farm.kill(1)
    farm.kill(2)
    wait_until(lambda: agent.role()[1] == "suspended", "it to be suspended")
    agent.at(1001)
    agent.must(PROMOTED, "monitor")
    assert agent.scores[-1] == "350"
    agent.at(1002)  # answer_timeout is 1
    agent.must(PROMOTED, "monitor")
    assert agent.scores[-1] == "150"
    farm.kill(0)
    agent.at(1003)
    agent.must(PROMOTED, "monitor")
    agent.at(1004)
    agent.must(PROMOTED, "monitor")
    assert agent.scores[-1] == "50"


# --- parameters and description ---


@pytest.mark.parametrize(
    ("parameters", "status", "words"),
    [
        ({"volume": ""}, CONFIGURED, ("volume", "missing")),
        ({"volume": "../v0"}, CONFIGURED, ("../v0", "iraid list")),
        ({"timeout": 0}, CONFIGURED, ("timeout", '"0"', "3600")),
        ({"timeout": "10s"}, CONFIGURED, ("timeout", '"10s"')),
        ({"timeout": "99999999999999999999"}, CONFIGURED, ("timeout", "3600")),
        ({"answer_timeout": 61}, CONFIGURED, ("answer_timeout", '"61"', "60")),
        ({"settle": -1}, CONFIGURED, ("settle", '"-1"')),
        ({"volume": "v9"}, ARGS, ("v9", "v9.conf", "copy")),
    ],
)
@pytest.mark.parametrize("action", ["validate-all", "start"])
def test_bad_parameters_are_named_and_change_nothing(
    gateway: Gateway, tmp_path: Path, parameters: dict[str, str | int], status: int, words: tuple[str, ...], action: str
) -> None:
    agent = Agent(gateway, tmp_path / "agent")
    said = agent.must(status, action, **parameters)
    assert all(word in said for word in words), said
    assert list((agent.folder / "rsctmp").iterdir()) == [] and agent.scores == []


def test_a_probe_where_nothing_is_installed_or_configured_finds_nothing(gateway: Gateway, tmp_path: Path) -> None:
    agent = Agent(gateway, tmp_path / "agent")
    assert agent.probe() == NOT_RUNNING
    (agent.folder / "libexec/iraid-engine").unlink()
    assert agent.probe() == NOT_RUNNING
    assert "install" in agent.must(INSTALLED, "validate-all")


def timeouts() -> dict[str, int]:
    shown = subprocess.run([AGENT, "meta-data"], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in re.findall(r'<action name="(\S+)".* timeout="(\d+)s"', shown)}


def test_the_timeouts_leave_time_for_what_the_actions_may_have_to_wait_for() -> None:
    text = (ROOT / "docs/design/time.md").read_text()
    stop = re.search(r"^That is (\d+) s\. While too many", text, re.MULTILINE)
    assert stop, "docs/design/time.md no longer says how long a stop can take"
    quiet = 2 * int(stop[1])  # role.c waits so long
    recommended = timeouts()
    values = dict(re.findall(r"^(\w+)=(\d+)$", AGENT.read_text(), re.MULTILINE))
    answer, promotion, kill = (int(values[name]) for name in ("ANSWER_DEFAULT", "TIMEOUT_DEFAULT", "KILL_SECONDS"))
    assert recommended["demote"] == recommended["stop"] >= answer + quiet + kill + 5
    assert recommended["promote"] >= answer + quiet + promotion
    assert recommended["monitor"] >= answer + 5


def test_the_agent_is_shell_that_nothing_is_said_about() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed: run scripts/deps")
    done = subprocess.run(["shellcheck", AGENT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def for_everybody() -> Iterator[Path]:
    """ocf-tester has the user nobody call the agent."""
    folder = Path(tempfile.mkdtemp(prefix="iraid-ocf-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_ocf_tester_finds_nothing(agent: Agent, for_everybody: Path) -> None:
    if shutil.which("ocf-tester") is None or shutil.which("xmllint") is None:
        pytest.skip("ocf-tester or xmllint is not installed: run scripts/deps")
    shutil.copyfile(AGENT, for_everybody / "volume")
    (for_everybody / "volume").chmod(0o755)
    environment = {name: value for name, value in agent.environment().items() if not name.startswith("OCF_")}
    done = subprocess.run(
        ["ocf-tester", "-n", "v0", "-o", "volume=v0", for_everybody / "volume"],
        env=environment | {"OCF_RESKEY_crm_feature_set": "3.16.2"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=4 * COMMAND_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed all tests" in done.stdout and "* rc=" not in done.stdout, done.stdout
    assert agent.role() == ("standby", "standby")
