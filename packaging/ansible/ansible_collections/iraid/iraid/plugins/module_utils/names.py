"""Members, sizes and secrets as iraid writes them: pure, of the standard library only, since it runs on the controller
(the filter that checks variables) and on the managed hosts (the modules).
"""

import ipaddress
import re

PORT_DEFAULT = 3260
LUN_MAX = 16383
PORTALS_MAX = 4
SECRET_TEXT_MAX = 255

_IQN = re.compile(
    r"iqn\.[0-9]{4}-(0[1-9]|1[0-2])\.[a-z0-9][a-z0-9.-]*\.[a-z0-9][a-z0-9.-]*(:[a-z0-9:.-]+)?"
    r"|eui\.[0-9a-f]{16}|naa\.[125][0-9a-f]{15}",
    re.IGNORECASE,
)
_IQN_MAX = 223
_PORTAL = re.compile(r"(\[[0-9a-fA-F:.]+\]|[0-9A-Za-z.-]+)(?::([0-9]{1,5}))?")
_LISTEN = re.compile(r"(\[[0-9a-fA-F:.]+\]|[0-9.]+)(?::([0-9]{1,5}))?")
_VOLUME = re.compile(r"[A-Za-z0-9._-]{1,63}")
_SIZE = re.compile(r"([0-9]+)\s*(?:([kmgtpe])(?:i?b)?|b)?", re.IGNORECASE)
_DECIMAL = re.compile(r"[0-9]+\s*[kmgtpe]b", re.IGNORECASE)


def volume_name(text):
    """Raises ValueError, as all here do, with a text for a person: what is wrong, and what to write."""
    if not _VOLUME.fullmatch(str(text)) or text in (".", ".."):
        raise ValueError(f"'{text}' is not a name of a volume: use 1 to 63 of A-Z a-z 0-9 . _ -")
    return text


def iqn(text):
    name = str(text).strip().lower()
    if len(name) > _IQN_MAX or not _IQN.fullmatch(name):
        raise ValueError(
            f"'{text}' is not an iSCSI name: write iqn.YYYY-MM.DOMAIN:NAME, for example iqn.2026-01.org.example:v0"
        )
    return name


def portal(text):
    """ADDRESS:PORT of a portal to log in to; host names are allowed."""
    return _portal(text, _PORTAL)


def listen(text):
    """IP:PORT of a portal to listen on."""
    address, _, port = _portal(text, _LISTEN).rpartition(":")
    try:
        parsed = ipaddress.ip_address(address.strip("[]"))
    except ValueError as error:
        raise ValueError(
            f"'{text}' is not a portal to listen on: {error}; write IP:PORT, for example 10.0.0.9:3260 or "
            "[fd00::9]:3260"
        ) from error
    if (parsed.version == 6) != address.startswith("["):
        raise ValueError(f"'{text}': write IPv6 addresses in brackets, others without")
    return f"[{parsed}]:{port}" if parsed.version == 6 else f"{parsed}:{port}"


def interface(text):
    """(IP, length of the prefix) of IP/PREFIX."""
    try:
        parsed = ipaddress.ip_interface(str(text).strip())
    except ValueError as error:
        raise ValueError(
            f"'{text}' is not an address with its prefix: {error}; write IP/PREFIX, for example 10.1.0.100/24"
        ) from error
    if "/" not in str(text):
        raise ValueError(f"'{text}' has no prefix: write IP/PREFIX, for example {parsed.ip}/24")
    return str(parsed.ip), parsed.network.prefixlen


def _portal(text, pattern):
    matched = pattern.fullmatch(str(text).strip())
    if not matched:
        raise ValueError(f"'{text}' is not a portal: write ADDRESS:PORT, for example 10.0.0.1:3260 or [fd00::1]:3260")
    port = int(matched[2] or PORT_DEFAULT)
    if not 1 <= port <= 65535:
        raise ValueError(f"'{text}': port {port} is not between 1 and 65535")
    return f"{matched[1].lower()}:{port}"


def member(text):
    """The name that `iraid status` gives to PORTAL[,PORTAL...]/IQN/LUN: with the first portal alone, and its port."""
    parts = str(text).strip().split("/")
    if len(parts) != 3:
        raise ValueError(
            f"'{text}' is not a member: write PORTAL/IQN/LUN, for example 10.0.0.1:3260/iqn.2026-01.org.example:disk/0"
        )
    portals = parts[0].split(",")
    if len(portals) > PORTALS_MAX:
        raise ValueError(f"'{text}' has {len(portals)} portals: {PORTALS_MAX} at most")
    names = [portal(one) for one in portals]
    if not parts[2].isdecimal() or int(parts[2]) > LUN_MAX:
        raise ValueError(f"'{text}': LUN '{parts[2]}' is not a number from 0 to {LUN_MAX}")
    return f"{names[0]}/{iqn(parts[1])}/{int(parts[2])}"


def size(text):
    """Bytes of 65536, "64K", "1 GiB"; units are powers of 1024."""
    if isinstance(text, bool) or _DECIMAL.fullmatch(str(text).strip()):
        raise ValueError(
            f"'{text}' is ambiguous as a size: write bytes, or a number with K, M, G or T (powers of 1024)"
        )
    matched = _SIZE.fullmatch(str(text).strip())
    if not matched:
        raise ValueError(f"'{text}' is not a size: write bytes, or a number with K, M, G or T")
    return int(matched[1]) * 1024 ** "bkmgtpe".index((matched[2] or "b").lower())


def secret_text(text):
    """User or secret, as a secrets file can hold it.  No message holds a part of it."""
    text = "" if text is None else str(text)
    if not text or len(text) > SECRET_TEXT_MAX or text == "NULL" or text != text.strip():
        raise ValueError(
            f"is empty, longer than {SECRET_TEXT_MAX} characters, the word NULL, or begins or ends with a blank"
        )
    if not (text.isascii() and text.isprintable()):
        raise ValueError("has characters that are not printable ASCII")
    return text
