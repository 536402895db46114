"""Secrets taken out of what is handed to others: by the names of keys and options, by their place in an address, and
then whatever is known to be one, wherever it stands, for instance in a log line.  Names of users go by their keys and
places only: one may be called as a word that is everywhere.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

REMOVED = "<removed>"
# Of LIO's saved configuration, open-iscsi, mail and web settings, and what people call theirs.
_KEY = re.compile(
    r"pass(word|wd|phrase)?|secret|token|credential|(api|private|auth)[_-]?key|authorization|"
    r"(^|[_.-])pw$|[_.-]pwd$|^-*auth$",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"_AUTH$")  # of an environment; LIO's discovery_enable_auth is none
_USER = re.compile(r"userid|username", re.IGNORECASE)
# Files are named where secrets are kept, and that is worth knowing.
_NOT = re.compile(r"[_-](file|path)$", re.IGNORECASE)
# From the start of a word on only: else a long one that nothing is assigned to takes the square of its length.
_ASSIGNED = re.compile(r'(?<![\w.-])([\w.-]+)"?\s*[=:]\s*')
# In command lines, and addresses: "--password VALUE", "-u USER:VALUE" as curl has it, "https://USER:VALUE@HOST".
_OPTION = re.compile(r"""(?<![\w-])(--?[\w.-]+)["']?,?\s+""")
# "-n node.session.auth.password -v VALUE" of iscsiadm.
_UPDATE = re.compile(r"""(?<![\w-])(?:-n|--name)[=\s]\s*["']?([\w.-]+)["']?\s+(?:-v|--value)[=\s]\s*""")
_LOGIN = re.compile(r"""(?<![\w-])(?:-[uU]\s*|-[a-zA-Z]{1,4}[uU]\s+|--(?:proxy-)?user["']?[=,\s]\s*)""")
_WORD = re.compile(r"""(?:[^\s"':]+:)?(?:"(?:[^"\\]|\\.)*"|'[^']*')|\S+""")
_ADDRESS = re.compile(r"""://([^\s"'@/:]*:[^\s"']*|[^\s"'@/]+)@""")
_KNOWN_MIN = 3  # shorter ones would take words apart, and guard nothing


def is_secret(key: str) -> bool:
    return bool(_KEY.search(key) or _VARIABLE.search(key)) and not _NOT.search(key)


def is_removed(key: str) -> bool:
    return is_secret(key) or bool(_USER.search(key)) and not _NOT.search(key)


def json_value(value: Any) -> Any:
    """The same with the values of secret keys replaced; those without a value stay as they are."""
    if isinstance(value, dict):
        return {
            key: REMOVED if is_removed(str(key)) and inner not in (None, "", [], {}, False) else json_value(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [json_value(inner) for inner in value]
    return value


def settings(text: str) -> str:
    """Lines "key = value" and "key: value", also in comments; of JSON too, also where it is broken; command lines, and
    addresses."""
    return "".join(f"{_without(line)[0]}\n" for line in _lines(text))


def units(text: str) -> str:
    """systemd's: settings, where a line may go on in the next one."""
    return settings(re.sub(r"[ \t]*\\\n[ \t]*", " ", text))


def secrets_in_settings(text: str) -> set[str]:
    return set().union(*(_without(line)[1] for line in _lines(text)))


def _lines(text: str) -> list[str]:
    """Other ends of lines than "\\n" may be a part of a secret."""
    return text.removesuffix("\n").split("\n") if text else []


def _without(line: str) -> tuple[str, set[str]]:
    """The line without secrets and users, and the secrets; a key's value is one as a whole, whatever is in it."""
    found: set[str] = set()
    rest = _without_words(line, found)
    return _without_keys(rest)[0], found | _without_keys(line)[1]


def _without_keys(line: str) -> tuple[str, set[str]]:
    found: set[str] = set()

    def member(match: re.Match[str]) -> str:
        if not is_removed(match[1]) or not match[3]:
            return match[0]
        if is_secret(match[1]):
            found.add(match[3])
        return f'"{match[1]}"{match[2]}"{REMOVED}"'

    line = re.sub(r'"([^"]*)"(\s*:\s*)"((?:[^"\\]|\\.)*)"', member, line)
    for match in _ASSIGNED.finditer(line):
        value = line[match.end() :]
        if is_removed(match[1]) and value.strip(' ",{[') and not value.startswith(f'"{REMOVED}"'):
            found |= {value.strip()} if is_secret(match[1]) else _without_keys(value)[1]
            return f"{line[: match.end()]}{REMOVED}", found
    return line, found


def _without_words(line: str, found: set[str]) -> str:
    """The line without secrets that no "=" or ":" announces; they are added to `found`."""

    def address(match: re.Match[str]) -> str:
        found.update(_password(match[1]))
        return f"://{REMOVED}@"

    line = _ADDRESS.sub(address, line)
    kept, end, kinds = "", 0, (_OPTION, _UPDATE, _LOGIN)
    for match in sorted((match for kind in kinds for match in kind.finditer(line)), key=lambda one: one.start()):
        word = _WORD.match(line, match.end())
        if word is None or match.start() < end:
            continue
        value = word[0].strip("\"'")
        login = match.re is _LOGIN
        if ":" in value if login else is_secret(match[1]):
            found.update((one.strip("\"'") for one in _password(value)) if login else [value])
            kept, end = f"{kept}{line[end : match.end()]}{REMOVED}", word.end()
    return kept + line[end:]


def _password(login: str) -> list[str]:
    """Of USER:PASSWORD, or USER%PASSWORD as iSCSI addresses have it."""
    return re.split("[:%]", login, maxsplit=1)[1:]


def secrets_in(value: Any) -> set[str]:
    """Values of secret keys in decoded JSON."""
    if isinstance(value, dict):
        own = {
            str(inner)
            for key, inner in value.items()
            if is_secret(str(key)) and isinstance(inner, str | int) and not isinstance(inner, bool)
        }
        return own.union(*(secrets_in(inner) for inner in value.values()))
    if isinstance(value, list):
        return set().union(*map(secrets_in, value))
    return set()


def secrets_of_file(path: Path) -> set[str]:
    """Of a secrets file: all lines but the first, and the third of four, which are users.  Nothing if it can't be
    read."""
    try:
        lines = _lines(path.read_bytes()[:65536].decode(errors="replace"))
    except OSError:
        return set()
    if len(lines) == 4:
        return {lines[1].strip(), lines[3].strip()}
    return {line.strip() for line in (lines[1:] or lines)}


def _unescaped(text: str) -> str | None:
    """What it means inside of a JSON text; None if it can't stand there, or is too short to be looked for."""
    try:
        meant = str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return None
    return meant if len(meant) >= _KNOWN_MIN else None


class Known:
    """Secrets by their values."""

    def __init__(self, secrets: Iterable[str]) -> None:
        given = {one for one in secrets if len(one) >= _KNOWN_MIN and one != REMOVED}
        # As they stand in JSON, too, and as what was read there is meant; the longest first, for one may hold another.
        written = given | {json.dumps(one)[1:-1] for one in given} | set(filter(None, map(_unescaped, given)))
        self._pattern = re.compile(
            "|".join(re.escape(one) for one in sorted(written, key=len, reverse=True)) if written else r"(?!)"
        )

    def remove(self, text: str) -> str:
        return self._pattern.sub(REMOVED, text)
