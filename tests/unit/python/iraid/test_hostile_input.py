"""Whatever a file or a socket holds: a value, or an error that says so; never a traceback, never a secret.

IRAID_EXAMPLES=N tries N inputs, other ones each time, instead of the same few.
"""

import copy
import dataclasses
import io
import json
import os
import string
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from iraid.cli.report import Report
from iraid.control import model
from iraid.control.client import Client
from iraid.control.errors import IraidError
from iraid.control.units import format_size, parse_size
from iraid.exporter.gather import Snapshot, VolumeView
from iraid.exporter.history import History
from iraid.exporter.metrics import values_of
from iraid.exporter.view import page_data
from iraid.lio import chap, saved
from iraid.watch import follow, redact, stats, verdict

EXAMPLES = int(os.environ.get("IRAID_EXAMPLES", "40"))
hostile = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="IRAID_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)

WHOLE = st.one_of(st.integers(-3, 40), st.sampled_from([2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)]))
NUMBERS = st.one_of(WHOLE, st.floats(0, 1e9))
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", "v0", "active", "degraded", "iqn.a", "\x1b[2J", "a\nb", 'x"y\\z', "\u202e", "é" * 20]),
)
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


def mostly(right, wrong=ANYTHING):
    return st.integers(0, 15).flatmap(lambda drawn: wrong if drawn == 15 else right)


# --- saveconfig.json ---

PATHS = st.sampled_from(
    ["/backstores/user/v0", "/backstores/user/v1", "/backstores/block/disk", "/backstores/user/", "x"]
)
INDEX = mostly(st.integers(0, 3))
LUN = st.fixed_dictionaries({"index": INDEX, "storage_object": mostly(PATHS)}, optional={"alias": ANYTHING})
MAPPED = st.fixed_dictionaries({"index": INDEX, "tpg_lun": INDEX})
ACL = st.fixed_dictionaries(
    {"node_wwn": mostly(st.sampled_from(["iqn.i", "iqn.j"]))},
    optional={"mapped_luns": mostly(st.lists(mostly(MAPPED), max_size=3)), "chap_password": TEXTS},
)
GROUP = st.fixed_dictionaries(
    {},
    optional={
        "tag": mostly(st.integers(1, 2)),
        "attributes": mostly(st.just({})),
        "luns": mostly(st.lists(mostly(LUN), max_size=3)),
        "portals": mostly(
            st.lists(mostly(st.fixed_dictionaries({"ip_address": mostly(TEXTS), "port": NUMBERS})), max_size=2)
        ),
        "node_acls": mostly(st.lists(mostly(ACL), max_size=2)),
    },
)
TARGET = st.fixed_dictionaries(
    {"wwn": mostly(st.sampled_from(["iqn.a", "iqn.b"]))},
    optional={"fabric": mostly(st.just("iscsi")), "tpgs": mostly(st.lists(mostly(GROUP), max_size=2))},
)
STORAGE = st.fixed_dictionaries(
    {"plugin": mostly(st.sampled_from(["user", "block"])), "name": mostly(st.sampled_from(["v0", "v1", "disk"]))},
    optional={"config": mostly(TEXTS), "size": mostly(st.integers(0, 99)), "attributes": mostly(st.just({}))},
)
SAVED = st.fixed_dictionaries(
    {},
    optional={
        "storage_objects": mostly(st.lists(mostly(STORAGE), max_size=3)),
        "targets": mostly(st.lists(mostly(TARGET), max_size=2)),
        "fabric_modules": mostly(st.lists(mostly(st.just({"name": "iscsi"})), max_size=1)),
    },
)
RUNNING = {
    "storage_objects": [{"plugin": "user", "name": "v0", "size": 2}],
    "targets": [
        {
            "wwn": "iqn.a",
            "fabric": "iscsi",
            "tpgs": [{"tag": 1, "luns": [{"index": 0, "storage_object": "/backstores/user/v0"}]}],
        }
    ],
    "fabric_modules": [],
}


def loaded(path, content):
    """None: it was refused, in words that name the file and are short."""
    path.write_bytes(content)
    try:
        return saved.load(path)
    except IraidError as error:
        assert str(path) in error.message and error.remedy
        assert len(error.message) < 400 + len(str(path))
        return None


@hostile
@given(config=SAVED)
def test_a_saved_configuration_is_refused_or_merged_and_saved(tmp_path, config):
    path = tmp_path / "saveconfig.json"
    read = loaded(path, json.dumps(config).encode())
    if read is None:
        return
    before = copy.deepcopy(read)
    saved.displaced(read, RUNNING, ["v0"], ["iqn.a"])
    merged = saved.merge(read, RUNNING, ["v0"], ["iqn.a"])
    assert read == before  # it is compared with the result later
    foreign = [one for one in read.get("targets", []) if one["wwn"] != "iqn.a"]
    assert [one for one in merged["targets"] if one["wwn"] != "iqn.a"] == foreign
    saved.store(path, merged, read)
    assert saved.load(path) == merged


@hostile
@given(content=st.one_of(st.binary(max_size=64), st.builds(lambda text: text.encode("utf-8", "surrogatepass"), TEXTS)))
def test_bytes_are_no_saved_configuration(tmp_path, content):
    loaded(tmp_path / "saveconfig.json", content)


@pytest.mark.parametrize("content", [b"[" * 100000, b'{"a":' * 100000, b"1" * 10000, b'{"targets": NaN}', b"\xff\xfe"])
def test_json_that_breaks_parsers_is_no_saved_configuration(tmp_path, content):
    assert loaded(tmp_path / "saveconfig.json", content) is None


# --- the handler's answers ---


def of_hint(hint):
    kind = model.get_origin(hint)
    if kind in (model.Union, model.UnionType):
        return st.one_of(st.none(), of_hint(model.get_args(hint)[0]))
    if kind is list:
        return st.lists(of_hint(model.get_args(hint)[0]), max_size=3)
    if dataclasses.is_dataclass(hint):
        return mostly(object_of(hint))
    known = {
        int: st.one_of(st.integers(0, 40), WHOLE),
        float: NUMBERS,
        str: TEXTS,
        bool: st.booleans(),
    }
    return mostly(known.get(kind or hint, st.dictionaries(TEXTS, ANYTHING, max_size=2)))


def object_of(kind):
    hints = model.get_type_hints(kind)
    required = {f.name for f in dataclasses.fields(kind) if f.default is f.default_factory}
    return st.fixed_dictionaries(
        {name: of_hint(hint) for name, hint in hints.items() if name in required},
        optional={name: of_hint(hint) for name, hint in hints.items() if name not in required},
    )


def read(kind, value):
    """None: it was refused."""
    try:
        return model.read(kind, json.loads(json.dumps(value)))
    except model.ShapeError as error:
        assert str(error).startswith("result")
        return None


ANSWERS = [one for one in vars(model).values() if dataclasses.is_dataclass(one)] + [stats.Stats]


@hostile
@given(data=st.data())
def test_an_answer_is_of_its_kind_or_refused_and_can_be_shown(data):
    kind = data.draw(st.sampled_from(ANSWERS))
    answer = read(kind, data.draw(object_of(kind)))
    if answer is not None:
        json.dumps(model.to_json(answer))


@hostile
@given(
    line=st.one_of(
        st.binary(max_size=64),
        st.builds(lambda value: json.dumps(value).encode(), ANYTHING),
        st.builds(
            lambda value: json.dumps({"jsonrpc": "2.0", "id": 1, **value}).encode(),
            st.dictionaries(st.sampled_from(["result", "error", "id"]), ANYTHING),
        ),
    )
)
def test_a_line_of_the_socket_is_an_answer_or_an_error(line):
    client = Client(Path("/run/iraid.sock"))
    try:
        client._result("version", line)
    except IraidError as error:
        assert error.message and isinstance(error.remedy, str)


@hostile
@given(answer=object_of(model.Volume), examined=object_of(model.Examination), found=object_of(model.Discovery))
def test_a_report_shows_whatever_the_handler_says_and_no_control_characters(answer, examined, found):
    shown = io.StringIO()
    report = Report(shown)
    if volume := read(model.Volume, answer):
        report.volumes([volume])
        report.status(volume)
        report.scrub(volume)
        report.verdicts([verdict.judge(volume, 1)])
    if examination := read(model.Examination, examined):
        report.examination(examination)
    if discovery := read(model.Discovery, found):
        report.discovery("10.0.0.1", discovery)
    assert "\x1b" not in shown.getvalue()


@hostile
@given(answer=object_of(model.Volume), figures=object_of(stats.Stats), later=object_of(stats.Stats))
def test_metrics_and_page_bear_whatever_the_handler_says(answer, figures, later):
    volume, first, second = read(model.Volume, answer), read(stats.Stats, figures), read(stats.Stats, later)
    if volume is None:
        return
    history = History()
    snapshots = [
        Snapshot(1.0 + at, up=True, version=model.Version("1", "p"), volumes=(VolumeView(volume, one),))
        for at, one in enumerate((first, second))
    ]
    for snapshot in snapshots:
        history.add(snapshot)
        json.dumps(page_data(snapshot, None, history))
        text = generate_latest(One(snapshot)).decode()
        assert any(family.name == "iraid_up" for family in text_string_to_metric_families(text))


class One:
    """A registry of one look."""

    def __init__(self, snapshot):
        self.snapshot = snapshot

    def collect(self):
        return values_of(self.snapshot).families()


@hostile
@given(event=object_of(model.Event))
def test_an_event_is_a_line(event):
    if made := read(model.Event, event):
        assert follow.line(made)
        follow.at_least(made.severity, "warning")


# --- what people write ---


@hostile
@given(text=st.one_of(st.text(max_size=12), st.from_regex(r"[0-9]{1,5} ?[kKmMgGtTpPeE]?(i?[bB])?", fullmatch=True)))
def test_a_size_is_a_number_or_refused(text):
    try:
        size = parse_size(text)
    except ValueError as error:
        assert "write" in str(error)
    else:
        assert size >= 0 and format_size(size)


@hostile
@given(
    text=st.one_of(
        st.text(max_size=20),
        st.from_regex(r"[0-9]{1,9} ?(s|min|h|d)", fullmatch=True),
        st.from_regex(r"[0-9]{2}:[0-9]{2}(:[0-9]{2})?", fullmatch=True),
        st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2})?", fullmatch=True),
    )
)
def test_a_time_is_a_time_or_refused(text):
    try:
        assert follow.parse_since(text, datetime(2026, 1, 31).astimezone()).tzinfo
    except ValueError as error:
        assert str(error)


@hostile
@given(
    content=st.one_of(
        st.binary(max_size=40),
        st.builds(
            lambda user, secret, end: f"{user}\n{secret}{end}".encode(),
            st.text("abc -", max_size=6),
            st.text(string.printable, max_size=300),
            st.sampled_from(["", "\n", "\n\n", "\nmore\n", "\r\n"]),
        ),
    )
)
def test_a_secrets_file_is_read_or_refused_without_its_content(content):
    secret = content.partition(b"\n")[2].strip().decode("latin-1")
    try:
        read_ = chap._parse(Path("/etc/iraid/secrets/v0"), content)
    except IraidError as error:
        assert len(secret) < 8 or secret not in error.message + (error.remedy or "")
    else:
        assert read_.user and read_.secret
        assert len(read_.secret) < 8 or read_.secret not in repr(read_)


# --- secrets ---

SECRET = st.text(string.ascii_letters + string.digits + "!$%&*+-./<>?^_~\\'`|;#()[]{}=:,@\" ", min_size=10, max_size=24)
KEYS = st.sampled_from(
    ["password", "chap_password", "secret", "node.session.auth.password", "chap_mutual_password", "api_key", "token",
     "smtp_passwd", "mutual_password", "discovery_password", "CHAP_SECRET"]
)  # fmt: skip
PLACES = [
    lambda key, secret: f"{key} = {secret}",
    lambda key, secret: f"# was: {key}: {secret}",
    lambda key, secret: f'  "{key}": {json.dumps(secret)},',
    lambda key, secret: json.dumps({"a": 1, key: secret, "b": "c"}),
    lambda key, secret: json.dumps({"a": {"b": [{key: secret}]}}, indent=2),
    lambda key, secret: f"ExecStart=/usr/bin/x --{key.replace('_', '-')} '{secret}' --quiet",
    lambda key, secret: f"iscsiadm -m node -o update -n {key} -v '{secret}'",
    lambda key, secret: f"url = https://user:{secret}@host.example/path",
    lambda key, secret: f"curl -u user:'{secret}' https://host.example",
]
IN_WORDS = (5, 6, 7)  # places that a space or a quote would end


@hostile
@given(key=KEYS, secret=SECRET, place=st.integers(0, len(PLACES) - 1), around=st.lists(TEXTS, max_size=2))
@example(key="password", secret="an escaped\\", place=2, around=[])
@example(key="password", secret="of two words", place=8, around=[])
@example(key="password", secret="afterAQuote", place=8, around=[])
@example(key="node.session.auth.password", secret="ofIscsiadm", place=6, around=[])
@example(key="node.session.auth.password", secret="anOptionWithDots", place=5, around=[])
def test_no_secret_is_left_in_settings(key, secret, place, around):
    secret = secret.strip(" \",'{[=:")
    if place in IN_WORDS:
        secret = "".join(c for c in secret if c.isalnum() or c in "!$*+-._~")
    if place == len(PLACES) - 1:
        secret = secret.replace("'", "")
    if len(secret) < 8 or any(secret in other for other in (key, *around)):
        return  # nobody could tell it from a word that may stay
    text = "\n".join([*around, PLACES[place](key, secret), *around])
    written = json.dumps(secret)[1:-1]
    cleaned = redact.settings(text)
    assert secret not in cleaned and written not in cleaned
    # and it is known from then on, wherever it stands
    known = redact.Known(redact.secrets_in_settings(text))
    assert secret not in known.remove(f"a line of a log with {secret} in it")


@hostile
@given(key=KEYS, secret=SECRET, value=ANYTHING)
def test_no_secret_is_left_in_json(key, secret, value):
    tree = {"targets": [{key: secret, "other": value}, {"inner": {key: [secret]}}]}
    assert secret not in json.dumps(redact.json_value(tree), ensure_ascii=False) or secret in json.dumps(value)
    assert secret in redact.secrets_in(tree)
