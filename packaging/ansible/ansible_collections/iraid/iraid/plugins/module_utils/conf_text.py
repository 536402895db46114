"""Keys of a configuration file of iraid (iraid.conf(5)) set, with its comments, order and all other lines kept.  Case
does not matter in the file; what is asked for is in lower case.

    [section]
    # comment
    #key = default        <- a key that was not set goes below this line, where there is one
    key = value           <- several lines for a key that may be repeated
"""

import re

_SECTION = re.compile(r"\s*\[([^\]]+)\]\s*")
_KEY = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=")
_COMMENTED = re.compile(r"\s*[#;]\s*([A-Za-z_][A-Za-z0-9_]*)\s*=")


def set_key(text, section, key, values):
    """values: one line each; none, and the key is taken out, so that its default holds."""
    lines = _lines(text)
    begin, end = _bounds(lines, section)
    wanted = [f"{key} = {value}" for value in values]
    if begin is None:
        if not wanted:
            return text
        return "\n".join([*lines, *([""] if lines else []), f"[{section}]", *wanted, ""])
    there = [number for number in range(begin, end) if _name(_KEY, lines[number]) == key]
    if [lines[number].strip() for number in there] == wanted:
        return text
    if there:
        place = there[0]
    else:
        commented = [number for number in range(begin, end) if _name(_COMMENTED, lines[number]) == key]
        place = commented[-1] + 1 if commented else _after_last(lines, begin, end)
    kept = [line for number, line in enumerate(lines) if number not in there]
    kept[place:place] = wanted
    return "\n".join([*kept, ""])


def get_key(text, section, key):
    lines = _lines(text)
    begin, end = _bounds(lines, section)
    if begin is None:
        return []
    return [line.partition("=")[2].strip() for line in lines[begin:end] if _name(_KEY, line) == key]


def _lines(text):
    """As the handler has them: other ends of lines than "\\n", as U+2028, are a part of one."""
    if not text:
        return []
    return text[:-1].split("\n") if text.endswith("\n") else text.split("\n")


def _name(pattern, line):
    matched = pattern.match(line)
    return matched[1].lower() if matched else None


def _bounds(lines, section):
    """First line after the section's head, and the line after its last; (None, None) if it is not there."""
    begin = None
    for number, line in enumerate(lines):
        matched = _SECTION.fullmatch(line)
        if not matched:
            continue
        if begin is not None:
            return begin, number
        if matched[1].strip().lower() == section:
            begin = number + 1
    return (None, None) if begin is None else (begin, len(lines))


def _after_last(lines, begin, end):
    """Before the blank lines, and the comment, that belong to the next section."""
    place = end
    while place > begin and (not lines[place - 1].strip() or lines[place - 1].lstrip()[0] in "#;"):
        place -= 1
    return place
