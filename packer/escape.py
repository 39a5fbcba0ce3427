r"""Names as text that is safe to print, and back.

A name may hold any byte but zero: tabs and newlines break lines apart, control characters change
what a terminal shows, bytes that are no UTF-8 are no text at all. They are written as \t, \n, \r,
\\ and \xHH, one \xHH a byte.
"""

from __future__ import annotations

import re
import unicodedata

#: Control characters, invisible ones that change the direction or joining of text, bytes that are
#: no UTF-8 (surrogate escapes), line and paragraph separators.
_UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")
#: For `keep`.
BACKSLASH = "\\"
_SHORT = {"\t": r"\t", "\n": r"\n", "\r": r"\r", "\\": r"\\"}
_LONG = {short[1].encode(): name.encode() for name, short in _SHORT.items()}
_ESCAPED = re.compile(rb"\\(?:x([0-9a-f]{2})|(.)|$)", re.DOTALL)


def escape(text: str, *, keep: str = "") -> str:
    r"""Text without characters that are not safe to print.

    Args:
        text: Any text; bytes that are no UTF-8 as surrogate escapes.
        keep: Characters to leave as they are. With BACKSLASH, the result is for people alone: it
            cannot be turned back.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(char if char in keep else _escape_character(char) for char in text)


def escape_path(path: bytes) -> str:
    r"""A path as `packer ls` prints it: a "-" in front is escaped, too, so that no command takes it
    for an option. `unescape_path` turns it back.
    """
    text = escape(path.decode("utf-8", "surrogateescape"))
    return rf"\x2d{text[1:]}" if text.startswith("-") else text


def unescape_path(text: bytes) -> bytes | None:
    """The path that `escape_path` made a text of; None if it made none."""
    wrong = False

    def original(match: re.Match[bytes]) -> bytes:
        nonlocal wrong
        if match[1] is not None:
            return bytes.fromhex(match[1].decode())
        wrong |= match[2] not in _LONG
        return _LONG.get(match[2], b"")

    path = _ESCAPED.sub(original, text)
    return None if wrong else path


def _escape_character(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if unicodedata.category(char) not in _UNSAFE:
        return char
    raw = "\udc80" <= char <= "\udcff"
    data = char.encode("utf-8", "surrogateescape" if raw else "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)
