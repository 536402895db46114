"""iraid support: what is in the archive, also when half of it can't be had; and that no secret is, wherever it stood."""

import errno
import io
import json
import os
import signal
import stat
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from control_peer import VERSION, ControlPeer, Failure, event, member, page, volume
from stats_answers import stats

from iraid.cli import main as cli
from iraid.control.client import Client
from iraid.watch import facts, redact, support
from iraid_dev.stack.private_gateway import IRAID, PYTHON, wait_until

# Each in its own place; none may be found again.
SECRETS = [
    "chap-file-secret-1",
    "saved-acl-secret-2",
    "saved-discovery-3",
    "tree-secret-4",
    "gateway-conf-secret-5",
    "ini-conf-secret-6",
    'quote"and\\slash7',
    "mutual-in-tree-8",
    "backup-comment-9",
    "target-of-chap-file-10",
]
IQN = "iqn.2026-01.org.example:v0"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A gateway's files, with a secret in each that may hold one; its logs repeat all of them."""
    for name in ("IRAID_CONFIG_DIR", "IRAID_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)

    def file(path, text, mode=0o600):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(mode)

    file("etc/iraid/secrets/v0", f"chap-user\n{SECRETS[0]}\nmember\n{SECRETS[9]}\n")
    file("etc/iraid/secrets/odd", SECRETS[6])
    file(
        "etc/iraid/volumes/v0.conf",
        f"# was: password = {SECRETS[8]}\n[volume]\n"
        f"chap_file = {tmp_path}/etc/iraid/secrets/v0\nchap_password = {SECRETS[5]}\ngive_up = 5\n",
    )
    file("etc/iraid/gateway.conf", f"[volumes]\nchap_secret = {SECRETS[4]}\n[notify]\nmail = root\n")
    file(
        "etc/rtslib-fb-target/saveconfig.json",
        json.dumps(
            {
                "fabric_modules": [
                    {"name": "iscsi", "discovery_password": SECRETS[2], "discovery_userid": "disc-user"}
                ],
                "targets": [
                    {
                        "wwn": IQN,
                        "tpgs": [
                            {
                                "node_acls": [
                                    {
                                        "node_wwn": "iqn.1993-08.org.debian:01:abc",
                                        "chap_userid": "acl-user",
                                        "chap_password": SECRETS[1],
                                        "chap_mutual_password": "",
                                    }
                                ]
                            }
                        ],
                    }
                ],
            }
        ),
    )
    tree = f"sys/kernel/config/target/iscsi/{IQN}/tpgt_1"
    file(f"{tree}/auth/password", f"{SECRETS[3]}\n")
    file(f"{tree}/auth/userid", "tree-user\n")
    file(f"{tree}/auth/password_mutual", f"{SECRETS[7]}\n")
    file(f"{tree}/acls/iqn.1993-08.org.debian:01:abc/auth/password", "NULL")
    file(f"{tree}/attrib/default_cmdsn_depth", "128\n")
    file("proc/version", "Linux version 6.1\n")
    file("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")
    file("proc/4711/comm", "tcmu-runner\n")
    file("proc/4711/limits", "Max open files            1024   524288  files\n")
    return tmp_path


def everything(words):
    """Programs of a machine where all secrets stand in all logs."""
    return 0, f"{words[0]} says {' '.join(SECRETS)} {json.dumps(SECRETS)}\nand more of {' '.join(words)}\n"


ANSWERS = {
    "version": VERSION,
    "volume.list": {"volumes": [volume()]},
    "pool.list": {"spares": []},
    "volume.status": volume(members=[member(0), member(1, link="closed", state="faulty", reason="gone")]),
    "volume.stats": stats(),
    "volume.path": {"name": "v0", "initiator": "iqn.2026-01.org.iraid:gw:v0", "members": []},
    "events": page(event(1, text=f"login failed with {SECRETS[0]}")),
    "examine": lambda p: {"member": p["member"], "superblock": {"epoch": 3}},
}


def archive(machine, answers=None, run=everything):
    """What support makes of it: path in the archive -> text; and what it says of the parts."""
    out = machine / "out.tar.xz"
    with ControlPeer(machine / "s", answers or {}) as peer:
        client = Client(machine / "s") if answers is not None else Client(machine / "none")
        kept = support.write(support.Collector(client, machine, run), out, "top")
    (machine / "s").unlink()
    with tarfile.open(out) as opened:
        texts = {one.name.removeprefix("top/"): opened.extractfile(one).read().decode() for one in opened}
        assert all(one.mode == 0o600 and one.name.startswith("top/") for one in opened.getmembers())
    return SimpleNamespace(texts=texts, kept={one.path: one for one in kept}, path=out, calls=peer.calls)


def test_no_secret_is_in_it(machine):
    made = archive(machine, ANSWERS)
    for name, text in made.texts.items():
        for secret in [*SECRETS, "chap-user", "acl-user", "disc-user", "tree-user"]:
            assert secret not in text and json.dumps(secret)[1:-1] not in text, name
    assert redact.REMOVED in made.texts["logs/tcmu-runner.log"]


def test_secrets_would_be_in_it_if_they_were_not_removed(machine, monkeypatch):
    """The test above sees them."""
    monkeypatch.setattr(redact, "_KEY", redact.re.compile("(?!)"))
    monkeypatch.setattr(redact, "_USER", redact.re.compile("(?!)"))
    monkeypatch.setattr(redact, "secrets_of_file", lambda _path: set())
    text = "".join(archive(machine, ANSWERS).texts.values())
    assert all(secret in text or json.dumps(secret)[1:-1] in text for secret in [*SECRETS, "acl-user", "tree-user"])


@pytest.mark.parametrize("user", ["iraid", "member"])
def test_a_user_called_as_a_word_of_ours_spoils_nothing(machine, user):
    """Its name is removed by the keys only."""
    saved = machine / "etc/rtslib-fb-target/saveconfig.json"
    saved.write_text(saved.read_text().replace("acl-user", user))
    (machine / f"sys/kernel/config/target/iscsi/{IQN}/tpgt_1/auth/userid").write_text(f"{user}\n")
    conf = machine / "etc/iraid/volumes/v0.conf"
    conf.write_text(f"{conf.read_text()}# was: username = {user}\n")
    texts = archive(machine, ANSWERS).texts
    assert "member" in texts["status.json"] and "iraid" in texts["versions.txt"]
    assert "<removed>s" not in texts["status.json"]
    assert f"username = {redact.REMOVED}\n" in texts["config/v0.conf"]
    assert f'"chap_userid": "{redact.REMOVED}"' in texts["config/lio-saveconfig.json"]
    assert f"auth/userid: {redact.REMOVED}\n" in texts["lio-tree.txt"]


def test_a_password_behind_a_user_is_known(tmp_path):
    assert redact.secrets_in_settings('username = u password = p1\n{"chap_userid": "u", "x_password": "p2"}\n') == {
        "p1",
        "p2",
    }


def test_a_password_in_a_command_line_or_an_address_is_known():
    assert redact.secrets_in_settings(
        "command = x --password p-1 -u u:p-2 'https://u:p-3@host/' --user 'u:p-4 y'\n"
    ) == {"p-1", "p-2", "p-3", "p-4 y"}


@pytest.mark.parametrize("secret", ["ab://x:y@z", "run --password x", "-u u:x"])
def test_a_password_that_looks_like_an_address_or_an_option_is_known_as_a_whole(secret):
    assert secret in redact.secrets_in_settings(f"password = {secret}\n")
    assert secret in redact.secrets_in_settings(f'{{"chap_password": "{secret}", "x": 1\n')
    assert redact.settings(f"password = {secret}\n") == f"password = {redact.REMOVED}\n"


def test_secrets_in_units_are_known_by_their_keys(machine):
    """They stand in no file that is searched for secrets."""

    def run(words):
        if words[:3] != ["systemctl", "--no-pager", "cat"]:
            return 0, ""
        return 0, (
            "# /etc/systemd/system/iraid-monitor.service.d/mail.conf\n[Service]\n"
            'Environment=SMTP_PASSWORD=unit-secret-1\nEnvironment="A=b" "API_TOKEN=unit-secret-2"\n'
            "ExecStart=/usr/bin/iraid monitor\n"
        )

    text = archive(machine, ANSWERS, run).texts["system/units.txt"]
    assert "unit-secret" not in text
    assert f"Environment=SMTP_PASSWORD={redact.REMOVED}\n" in text and "ExecStart=/usr/bin/iraid monitor\n" in text


UNITS = r"""# /etc/systemd/system/iraid-monitor.service.d/mail.conf
[Service]
Environment=SMTP_PW=unit-secret-1
Environment="A=b" AUTH=unit-secret-2 C=d
Environment=MYSQL_PWD=unit-secret-3 HTTP_AUTH=unit-secret-4
ExecStartPre=/usr/bin/curl -u ops:unit-secret-5 -H "Authorization: Bearer unit-secret-6" https://example.org/
ExecStartPre=/usr/bin/curl --user 'ops:unit-secret-7 too' --proxy-user=ops:unit-secret-8 -uops:unit-secret-9 -X POST
ExecStartPre=/usr/bin/curl https://ops:unit-secret-10@example.org:8443/hook?a=b --retry 3
ExecStartPre=/usr/bin/pager --password unit-secret-11 --api-key "unit-secret-12 too" -token unit-secret-13 --level 3
ExecStartPre=/usr/bin/pager --level 4 --password \
    unit-secret-14 --password-file /etc/pager.secret
ExecStartPre=/bin/mount -o ro smb://ops:unit/secret-15@10.0.0.1/x /mnt
ExecStart=/usr/bin/iraid monitor --socket /run/iraid/control.sock
"""


def test_secrets_in_command_lines_of_units_are_not_in_it(machine):
    def run(words):
        return 0, UNITS if words[:3] == ["systemctl", "--no-pager", "cat"] else ""

    text = archive(machine, ANSWERS, run).texts["system/units.txt"]
    assert "secret-" not in text and "unit/secret" not in text and "ops" not in text and " too" not in text
    for kept in (
        "iraid-monitor.service.d/mail.conf\n[Service]\n",
        "SMTP_PW=<removed>\n",
        "-X POST",
        "https://<removed>@example.org:8443/hook?a=b --retry 3",
        "smb://<removed>@10.0.0.1/x /mnt",
        "-token <removed> --level 3",
        "--level 4 --password <removed> --password-file /etc/pager.secret",
        "ExecStart=/usr/bin/iraid monitor --socket /run/iraid/control.sock\n",
    ):
        assert kept in text, kept


def test_the_archive_has_all_parts_without_an_error(machine):
    made = archive(machine, ANSWERS)
    texts = made.texts
    assert set(texts) == {*made.kept, "CONTENTS.txt"}
    assert not [one for one in made.kept.values() if one.error]
    assert json.loads(texts["status.json"])["volumes"][0]["health"]["word"] == "DEGRADED"
    assert json.loads(texts["stats.json"])["v0"]["members"][0]["sessions"][0]["tcp"]["rtt_us"] == 850
    blocks = json.loads(texts["superblocks.json"])
    assert [
        one.get("superblock", {}).get("epoch") if "superblock" in one else one["error"] for one in blocks.values()
    ] == [3, "there is no session with it: gone"]
    assert {finding["check"] for finding in json.loads(texts["doctor.json"])["findings"]} >= {"handler", "kernel"}
    assert "give_up = 5" in texts["config/v0.conf"] and "chap_file = " in texts["config/v0.conf"]
    assert "mail = root" in texts["config/gateway.conf"]
    saved = json.loads(texts["config/lio-saveconfig.json"])["targets"][0]["tpgs"][0]["node_acls"][0]
    assert saved == {
        "node_wwn": "iqn.1993-08.org.debian:01:abc",
        "chap_userid": redact.REMOVED,
        "chap_password": redact.REMOVED,
        "chap_mutual_password": "",
    }
    assert f"iscsi/{IQN}/tpgt_1/attrib/default_cmdsn_depth: 128\n" in texts["lio-tree.txt"]
    assert f"iscsi/{IQN}/tpgt_1/auth/password: {redact.REMOVED}\n" in texts["lio-tree.txt"]
    assert "debian:01:abc/auth/password: not set\n" in texts["lio-tree.txt"]
    assert texts["sysctl.txt"] == "net.ipv4.tcp_rmem = 4096 131072 6291456\n"
    assert "Max open files" in texts["process.txt"]
    assert "tcmu-runner.log" in texts["CONTENTS.txt"]


def test_members_are_looked_at_as_the_volume_logs_in(machine):
    asked = [p for method, p in archive(machine, ANSWERS).calls if method == "examine"]
    assert asked == [
        {
            "member": member(0)["member"],
            "chap_file": f"{machine}/etc/iraid/secrets/v0",
            "initiator": "iqn.2026-01.org.iraid:gw:v0",
        }
    ]


def test_with_a_dead_handler_and_without_programs_there_is_what_files_say(machine):
    made = archive(machine, None, lambda _words: None)
    assert "config/v0.conf" in made.texts and "lio-tree.txt" in made.texts and "status.json" not in made.texts
    assert "does not exist" in made.kept["status.json"].error
    assert "journalctl is not installed" in made.kept["logs/kernel.log"].error
    assert "NOT THERE: control socket" in made.texts["CONTENTS.txt"]


def test_a_part_that_fails_spoils_no_other(machine):
    made = archive(
        machine, ANSWERS | {"volume.stats": Failure(-32601, "method", "no method volume.stats", "restart it")}
    )
    assert json.loads(made.texts["stats.json"])["v0"]["error"]["message"] == "no method volume.stats"
    assert "status.json" in made.texts


def test_a_volume_whose_file_has_a_fault_hides_no_other(machine):
    fault = Failure(1, "invalid", "v1.conf:58: give_upp: there is no such key", "correct the file")
    made = archive(
        machine,
        ANSWERS
        | {
            "volume.list": {"volumes": [{"name": "v1", "state": "failed", "reason": str(fault)}, volume("v2")]},
            "volume.status": lambda p: fault if p["name"] == "v1" else volume(p["name"]),
        },
    )
    volumes = json.loads(made.texts["status.json"])["volumes"]
    assert [(one["name"], one["health"]["word"]) for one in volumes] == [("v1", "FAILED"), ("v2", "OK")]
    assert json.loads(made.texts["superblocks.json"])[member(0)["member"]]["superblock"]["epoch"] == 3


def test_long_logs_keep_their_end(machine, monkeypatch):
    monkeypatch.setattr(support, "TEXT_BYTES_MAX", 1000)
    made = archive(machine, ANSWERS, lambda _words: (0, "old\n" * 5000 + "the last line\n"))
    text = made.texts["logs/kernel.log"]
    assert text.startswith("... the beginning is left out") and text.endswith("the last line\n") and len(text) < 1100


def test_the_archive_is_its_owners_and_overwrites_nothing(machine):
    kept = os.umask(0)
    try:
        made = archive(machine, ANSWERS)
    finally:
        os.umask(kept)
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    before = made.path.read_bytes()
    with pytest.raises(support.IraidError, match="File exists"):
        support.write(support.Collector(Client(machine / "none"), machine, everything), made.path, "top")
    assert made.path.read_bytes() == before
    link = machine / "link.tar.xz"
    link.symlink_to(machine / "victim")
    with pytest.raises(support.IraidError):
        support.write(support.Collector(Client(machine / "none"), machine, everything), link, "top")
    assert not (machine / "victim").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: iraid support wants to be")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_one_that_is_ended_by_a_signal_leaves_nothing(tmp_path, number):
    """While a program that it asks hangs."""
    (tmp_path / "tcmu-runner").write_text(f"#!/bin/sh\n: > {tmp_path}/begun\nexec sleep 100\n")
    (tmp_path / "tcmu-runner").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "IRAID_SOCKET": str(tmp_path / "none"),
        "IRAID_CONFIG_DIR": str(tmp_path / "etc"),
    }
    archive = tmp_path / "x.tar.xz"
    ended = subprocess.Popen([PYTHON, str(IRAID), "support", "--output", str(archive)], env=environment)
    try:
        wait_until((tmp_path / "begun").exists, "it to ask for the runner's version")
        assert archive.exists()
        ended.send_signal(number)
        assert ended.wait(30) != 0
    finally:
        ended.kill()
        ended.wait()
    assert not archive.exists()


def test_an_interrupted_one_leaves_nothing(machine, monkeypatch):
    def interrupted(_words):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        support.write(support.Collector(Client(machine / "none"), machine, interrupted), machine / "x.tar.xz", "top")
    assert not (machine / "x.tar.xz").exists()


# What a target or an initiator may call itself, and what a log may repeat of it.
HOSTILE = [
    "\x1b]0;owned\x07\x1b[2J\x1b[31m",
    "\x9b2J\x85forged: line",
    "../../../../etc/passwd",
    "/etc/shadow",
    "<script>alert(1)</script>",
    "b\u202eidi\u2028line",
    "\udcff\udc80",
    "\r\b\b\x00\x7f",
    "long" * 5000,
]


def test_hostile_names_command_no_terminal_and_forge_no_path(machine):
    said = " ".join(HOSTILE).encode(errors="surrogateescape").decode(errors="replace") + f" {SECRETS[0]}\n"
    names = ["\x1b[2J", "a\nforged.txt", "\udcff", "<b>", "n" * 240]
    for name in names:
        (machine / f"etc/iraid/volumes/{name}.conf").write_bytes(said.encode())
    sessions = machine / f"sys/kernel/config/target/iscsi/{IQN}/tpgt_1/dynamic_sessions"
    sessions.write_bytes("\0".join(HOSTILE).encode(errors="surrogateescape"))
    events = page(*(event(number, text=f"{name} is gone") for number, name in enumerate(HOSTILE[:6], 1)))
    failing = Failure(9, "internal", f"{HOSTILE[0]}\nforged.txt  all is well", "")
    made = archive(machine, ANSWERS | {"events": events, "pool.list": failing}, lambda _words: (0, said))
    for name, text in [*made.texts.items(), *((one.path, f"{one.what}{one.error}") for one in made.kept.values())]:
        shown = [char for char in name + text.replace("\n", "").replace("\t", "") if not char.isprintable()]
        assert not shown and SECRETS[0] not in text, (name, shown[:5])
        assert ".." not in Path(name).parts and len(Path(name).parts) <= 2 and not name.startswith("/")
    assert "\\x1b]0;owned\\x07" in made.texts["logs/kernel.log"] and "\\x1b[2J" in made.texts["lio-tree.txt"]
    lines = made.texts["CONTENTS.txt"].splitlines()
    assert len(lines) == 2 + len(made.kept) and max(map(len, lines)) < 1500
    assert {f"config/{name}.conf" for name in ("<b>", "n" * 240, "\\x1b[2J", "a\\nforged.txt")} < set(made.texts)


class FullDisk(io.RawIOBase):
    """A file on a disk that has no room after so many bytes; buffered as a file is."""

    def __init__(self, descriptor, room):
        self.descriptor, self.room = descriptor, room

    def writable(self):
        return True

    def fileno(self):
        return self.descriptor

    def write(self, data):
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = os.write(self.descriptor, bytes(data)[: self.room])
        self.room -= written
        return written

    def close(self):
        if not self.closed:
            os.close(self.descriptor)
        super().close()


def test_a_full_disk_is_named_with_what_to_do_and_nothing_is_left(machine, monkeypatch):
    out = machine / "out.tar.xz"
    collector = support.Collector(Client(machine / "none"), machine, everything)
    support.write(collector, out, "top")
    size_bytes = out.stat().st_size
    out.unlink()
    before = sorted(machine.rglob("*"))

    def full(room):
        def opening(descriptor, _mode):
            return io.BufferedWriter(FullDisk(descriptor, room))

        return opening

    # Two archives of the same differ by some bytes: the last twentieth may not be needed.
    for room in range(0, size_bytes * 19 // 20, size_bytes // 20):
        with monkeypatch.context() as patch:
            patch.setattr(support.os, "fdopen", full(room))
            with pytest.raises(support.IraidError) as refused:
                support.write(collector, out, "top")
        assert refused.value.message == f"{out}: No space left on device"
        assert f"df -h {machine}" in refused.value.remedy and "--output" in refused.value.remedy
        assert sorted(machine.rglob("*")) == before
    support.write(collector, out, "top")


def test_what_a_disk_says_late_is_heard(machine, monkeypatch):
    """Some file systems know of no room only when the file is to be on the disk."""

    def late(_descriptor):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.chdir(machine)
    monkeypatch.setattr(support.os, "fsync", late)
    collector = support.Collector(Client(machine / "none"), machine, everything)
    with pytest.raises(support.IraidError, match="quota exceeded") as refused:
        support.write(collector, Path("late.tar.xz"), "top")
    assert "df -h ." in refused.value.remedy and not Path("late.tar.xz").exists()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("password = hello", "password = <removed>"),
        ("  chap_password: hello", "  chap_password: <removed>"),
        ("; secret=x y z", "; secret=<removed>"),
        ("chap_file = /etc/iraid/secrets/v0", "chap_file = /etc/iraid/secrets/v0"),
        ('{"a": 1, "chap_password": "he\'llo", "b": 2}', '{"a": 1, "chap_password": "<removed>", "b": 2}'),
        ("# was: password = hello", "# was: password = <removed>"),
        ('"chap_secret": 12,', '"chap_secret": <removed>'),
        ('{"password": "a\\"b", "x": 1', '{"password": "<removed>", "x": 1'),
        ("run --password hello --port 3", "run --password <removed> --port 3"),
        ("run --password=hello", "run --password=<removed>"),
        ("run -u u:hello x", "run -u <removed> x"),
        ("journalctl -u tcmu-runner", "journalctl -u tcmu-runner"),
        ("member = 10.0.0.1:3260/iqn.x:y/0", "member = 10.0.0.1:3260/iqn.x:y/0"),
        ("# see https://example.org/a", "# see https://example.org/a"),
        ("url = https://u:he@llo@host/a", "url = https://<removed>@host/a"),
        ("authentication = 1", "authentication = 1"),
        ('"discovery_enable_auth": true', '"discovery_enable_auth": true'),
        ("AUTH=hello", "AUTH=<removed>"),
        ("password = hel\u2028lo\x0cw\x85x", "password = <removed>"),
        ("PWD=/root", "PWD=/root"),
        ("smtp_pw: hello", "smtp_pw: <removed>"),
        ("password =", "password ="),
        ("give_up = 5", "give_up = 5"),
        ("# passwords are in a file", "# passwords are in a file"),
    ],
)
def test_secret_settings_are_known_by_their_keys(line, expected):
    assert redact.settings(line + "\n") == expected + "\n"


def test_a_long_word_takes_no_longer_than_it_is_long():
    """Its square would be hours."""
    word = "x" * 1_000_000
    assert redact.settings(f"{word}\n") == f"{word}\n"
    assert redact.settings(f"{word}.password=a\n") == f"{word}.password=<removed>\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_command_says_what_is_in_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(facts, "run", lambda _words: None)
    monkeypatch.setattr(support.Collector.__init__, "__defaults__", (tmp_path, lambda _words: None))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["support", "--socket", str(tmp_path / "none")]) == 0
    out = capsys.readouterr().out
    (made,) = Path(tmp_path).glob("iraid-support-*.tar.xz")
    assert "not there: control socket" in out and f"{made.name}: " in out.splitlines()[-1]
    assert cli.main(["support", "--socket", str(tmp_path / "none"), "--output", made.name, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["message"].endswith("File exists")


def test_a_part_that_fails_in_an_odd_way_says_how_and_the_others_are_there(machine, monkeypatch):
    def broken(_seen):
        raise TypeError(f"not of {SECRETS[1]}")

    monkeypatch.setattr(support.doctor, "examine", broken)
    made = archive(machine, ANSWERS)
    assert "doctor.json" not in made.texts and set(made.kept) - {"doctor.json"} < set(made.texts)
    (line,) = (line for line in made.texts["CONTENTS.txt"].splitlines() if line.startswith("doctor.json"))
    assert "NOT THERE: TypeError: not of " in line and SECRETS[1] not in line


def test_a_saved_configuration_of_an_odd_shape_costs_no_part(machine):
    path = machine / "etc/rtslib-fb-target/saveconfig.json"
    path.write_text(json.dumps({"storage_objects": [{"plugin": "user", "config": "iraid/v0"}]}))
    made = archive(machine, ANSWERS)
    assert not [one for one in made.kept.values() if one.error]
    texts = [one["text"] for one in json.loads(made.texts["doctor.json"])["findings"]]
    assert [text for text in texts if f"{path} is not a saved configuration: storage_objects[0] has no name" in text]
