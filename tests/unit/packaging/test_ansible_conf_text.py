"""The Ansible role's changes of configuration files: only the keys that are asked for."""

import ansible_role  # noqa: F401 - says where ansible_collections is
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ansible_collections.iraid.iraid.plugins.module_utils.conf_text import get_key, set_key

SAMPLE = """\
# The gateway.

# Defaults of volumes.
[volumes]
#give_up = 5s
error_limit = 64   

# Whom to tell.
[notify]
#mail = root@localhost
#command = none
"""


def test_a_key_goes_below_its_default():
    assert set_key(SAMPLE, "notify", "mail", ["a@example.org", "b@example.org"]) == SAMPLE.replace(
        "#mail = root@localhost\n", "#mail = root@localhost\nmail = a@example.org\nmail = b@example.org\n"
    )


def test_a_value_is_replaced_where_it_stands():
    assert set_key(SAMPLE, "volumes", "error_limit", ["8"]) == SAMPLE.replace("error_limit = 64   ", "error_limit = 8")


def test_a_key_without_a_commented_default_goes_before_the_next_section_s_comment():
    text = set_key(SAMPLE, "volumes", "hedge", ["1s"])
    assert "error_limit = 64   \nhedge = 1s\n\n# Whom to tell.\n[notify]" in text


def test_case_and_the_other_mark_of_comments_do_not_matter():
    text = "[Volumes]\n;Hedge = 500ms\nGive_Up = 5s\n"
    assert set_key(text, "volumes", "give_up", ["8s"]) == "[Volumes]\n;Hedge = 500ms\ngive_up = 8s\n"
    assert set_key(text, "volumes", "hedge", ["1s"]) == "[Volumes]\n;Hedge = 500ms\nhedge = 1s\nGive_Up = 5s\n"
    assert get_key(text, "volumes", "give_up") == ["5s"]


def test_a_section_is_made_and_the_same_again_changes_nothing():
    text = set_key(SAMPLE, "exporter", "port", ["9000"])
    assert text == SAMPLE + "\n[exporter]\nport = 9000\n"
    assert set_key(text, "exporter", "port", ["9000"]) == text
    assert set_key("", "exporter", "port", ["9000"]) == "[exporter]\nport = 9000\n"


@pytest.mark.parametrize("end", ["\u2028", "\x85", "\x0c", "\x0b", "\r"])
def test_a_comment_stays_one_whatever_is_in_it(end):
    """The handler's lines end with "\\n" only."""
    comments = f"[notify]\n# old:{end}command = none\n#mail = x{end}mail = y\n"
    text = f"{comments}severity = error\n"
    assert get_key(text, "notify", "mail") == []
    assert set_key(text, "notify", "command", ["/bin/true"]) == f"{text}command = /bin/true\n"
    assert set_key(text, "notify", "mail", ["a@example.org"]) == f"{comments}mail = a@example.org\nseverity = error\n"


@pytest.mark.parametrize("text", ["[notify]\nmail = a", "[notify]\nmail = a\n\n", "[notify]\r\nmail = a\r\n"])
def test_a_value_is_read_whatever_ends_the_text(text):
    assert get_key(text, "notify", "mail") == ["a"]
    assert set_key(text, "notify", "mail", ["a"]) == text


def test_a_key_is_taken_out():
    text = set_key(SAMPLE, "notify", "mail", ["a@example.org"])
    assert set_key(text, "notify", "mail", []) == SAMPLE
    assert set_key(SAMPLE, "exporter", "port", []) == SAMPLE


@pytest.mark.parametrize("section", ["volumes", "notify", "exporter"])
@settings(max_examples=30)
@given(values=st.lists(st.text("ab0 /", min_size=1).map(str.strip).filter(bool), max_size=3))
def test_what_was_set_is_read_and_all_other_lines_stay(section, values):
    text = set_key(SAMPLE, section, "mail", values)
    assert get_key(text, section, "mail") == values
    assert set_key(text, section, "mail", values) == text
    rest = [line for line in text.splitlines() if not line.startswith("mail =")]
    assert rest[: len(SAMPLE.splitlines())] == SAMPLE.splitlines()
