"""Secrets taken out of what is handed to others: by the names of keys, and then whatever is known to be one, wherever it
stands, for instance in a log line.  Names of users go by their keys only: one may be called as a word that is everywhere.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

REMOVED = "<removed>"
# Of LIO's saved configuration, open-iscsi, mail and web settings, and what people call theirs.
_KEY = re.compile(r"pass(word|wd|phrase)?|secret|token|credential|api_?key|private_?key", re.IGNORECASE)
_USER = re.compile(r"userid|username", re.IGNORECASE)
# Files are named where secrets are kept, and that is worth knowing.
_NOT = re.compile(r"_file$|_path$", re.IGNORECASE)
_KNOWN_MIN = 3  # shorter ones would take words apart, and guard nothing


def is_secret(key: str) -> bool:
    return bool(_KEY.search(key)) and not _NOT.search(key)


def is_removed(key: str) -> bool:
    return is_secret(key) or bool(_USER.search(key)) and not _NOT.search(key)


def json_value(value: Any) -> Any:
    """The same with the values of secret keys replaced; those without a value stay as they are."""
    if isinstance(value, dict):
        return {key: REMOVED if is_removed(str(key)) and inner not in (None, "", [], {}, False) else json_value(inner)
                for key, inner in value.items()}
    if isinstance(value, list):
        return [json_value(inner) for inner in value]
    return value


def settings(text: str) -> str:
    """Lines "key = value" and "key: value", also in comments; of JSON too, also where it is broken."""
    return "".join(f"{_without(line)[0]}\n" for line in text.splitlines())


def secrets_in_settings(text: str) -> set[str]:
    return set().union(*(_without(line)[1] for line in text.splitlines()))


def _without(line: str) -> tuple[str, set[str]]:
    """The line without secrets and users, and the secrets."""
    found: set[str] = set()

    def member(match: re.Match[str]) -> str:
        if not is_removed(match[1]) or not match[3]:
            return match[0]
        if is_secret(match[1]):
            found.add(match[3])
        return f'"{match[1]}"{match[2]}"{REMOVED}"'

    line = re.sub(r'"([^"]*)"(\s*:\s*)"((?:[^"\\]|\\.)*)"', member, line)
    for match in re.finditer(r'([\w.-]+)"?\s*[=:]\s*', line):
        value = line[match.end():]
        if is_removed(match[1]) and value.strip(' ",{[') and not value.startswith(f'"{REMOVED}"'):
            found |= {value.strip()} if is_secret(match[1]) else _without(value)[1]
            return f"{line[:match.end()]}{REMOVED}", found
    return line, found


def secrets_in(value: Any) -> set[str]:
    """Values of secret keys in decoded JSON."""
    if isinstance(value, dict):
        own = {str(inner) for key, inner in value.items() if is_secret(str(key)) and isinstance(inner, str | int)
               and not isinstance(inner, bool)}
        return own.union(*(secrets_in(inner) for inner in value.values()))
    if isinstance(value, list):
        return set().union(*map(secrets_in, value))
    return set()


def secrets_of_file(path: Path) -> set[str]:
    """Of a secrets file: all lines but the first, which is the user.  Nothing if it can't be read."""
    try:
        lines = path.read_bytes()[:65536].decode(errors="replace").splitlines()
    except OSError:
        return set()
    return {line.strip() for line in (lines[1:] or lines)}


class Known:
    """Secrets by their values."""

    def __init__(self, secrets: Iterable[str]) -> None:
        given = {one for one in secrets if len(one) >= _KNOWN_MIN and one != REMOVED}
        # As they stand in JSON, too; the longest first, for one may hold another.
        written = given | {json.dumps(one)[1:-1] for one in given}
        self._pattern = re.compile("|".join(re.escape(one) for one in sorted(written, key=len, reverse=True))
                                   if written else r"(?!)")

    def remove(self, text: str) -> str:
        return self._pattern.sub(REMOVED, text)
