"""Secrets files: who may read them, what they hold, and that nothing of it leaks."""

import os

import pytest

from iraid.control.errors import IraidError
from iraid.lio.chap import Credentials, read_credentials

SECRET = "wolf-howls-42"


@pytest.fixture
def secrets(tmp_path):
    def write(content, mode=0o600):
        path = tmp_path / "secrets"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        return path

    return write


def refused(path):
    with pytest.raises(IraidError) as caught:
        read_credentials(path)
    assert str(path) in caught.value.message
    assert caught.value.remedy
    assert SECRET not in str(caught.value) + caught.value.remedy
    return caught.value


@pytest.mark.parametrize("text", [f"client\n{SECRET}\n", f"client\n{SECRET}", f"client\r\n{SECRET}\r\n"])
def test_two_lines_are_user_and_secret(secrets, text):
    assert read_credentials(secrets(text)) == Credentials("client", SECRET)


@pytest.mark.parametrize("end", ["", "\n"])
def test_four_lines_have_the_targets_own_last(secrets, end):
    both = read_credentials(secrets(f"client\n{SECRET}\ngateway\nowl-hoots-4242{end}"))
    assert both == Credentials("client", SECRET, "gateway", "owl-hoots-4242")
    assert SECRET not in repr(both) and "owl-hoots-4242" not in repr(both)


def test_both_sides_have_secrets_of_their_own(secrets):
    """Who heard the target's proof could send it back as the initiator's."""
    assert "same secret for both sides" in refused(secrets(f"client\n{SECRET}\ngateway\n{SECRET}\n")).message


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_file_others_can_reach_is_refused(secrets, mode):
    error = refused(secrets(f"client\n{SECRET}\n", mode))
    assert f"{mode:04o}" in error.message
    assert error.kind == "permission"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(secrets):
    path = secrets(f"client\n{SECRET}\n")
    os.chown(path, 65534, 65534)
    assert "belongs to user 65534" in refused(path).message


@pytest.mark.parametrize(
    "content",
    [
        "",
        "client\n",
        f"client\n{SECRET}\nmore\n",
        f"client\n{SECRET}\ngateway\n\n",
        f"client\n{SECRET}\n\nowl-hoots-4242\n",
        f"client\n{SECRET}\ngateway\nowl-hoots-4242\nmore\n",
        f"\n{SECRET}\n",
        "client\n\n",
        f"NULL\n{SECRET}\n",
        f"{'u' * 256}\n{SECRET}\n",
        f"cli\x07ent\n{SECRET}\n",
        f"clientä\n{SECRET}\n",
        b"\xff\n\xfe\n",
        f"client\n{SECRET}\n" + "\n" * 5000,
    ],
)
def test_what_is_not_two_good_lines_is_refused(secrets, content):
    refused(secrets(content))


def test_a_missing_file_a_folder_and_a_pipe_are_refused_without_waiting(tmp_path):
    refused(tmp_path / "none")
    refused(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    refused(tmp_path / "pipe")


def test_a_secret_is_not_in_the_repr():
    assert SECRET not in repr(Credentials("client", SECRET))


@pytest.mark.parametrize(("secret", "word"), [("short", "shorter"), ("x" * 17, "Windows")])
def test_secrets_that_initiators_refuse_are_advised_against(secret, word):
    assert word in Credentials("client", secret).advice()[0]
    assert Credentials("client", SECRET).advice() == []
