r"""Names as text that is safe to print, and back.

A name may hold any byte but zero. Tabs and newlines break lines apart, control characters change
what a terminal shows, and bytes that are not UTF-8 are no text. These are written as \t, \n, \r, \\
and \xHH, one \xHH per byte.
"""

from __future__ import annotations

import re
import unicodedata

#: Unicode categories: control characters; invisible characters that change the direction or joining
#: of text; surrogates (bytes that are not UTF-8); line and paragraph separators.
_UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")
#: A value for `keep`.
BACKSLASH = "\\"
_SHORT = {"\t": r"\t", "\n": r"\n", "\r": r"\r", "\\": r"\\"}
_LONG = {short[1].encode(): name.encode() for name, short in _SHORT.items()}
_ESCAPED = re.compile(rb"\\(?:x([0-9a-f]{2})|(.)|$)", re.DOTALL)


def escape(text: str, *, keep: str = "") -> str:
    r"""Return text with unsafe characters escaped.

    Args:
        text: Any text; bytes that are not UTF-8 are surrogate escapes.
        keep: Characters to leave unchanged. With BACKSLASH, the result cannot be unescaped: it is
            for people only.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(char if char in keep else _escape_character(char) for char in text)


def escape_path(path: bytes) -> str:
    r"""Return a path as `packer ls` prints it. A "-" at the start is escaped as well, so that no
    command parses the path as an option. `unescape_path` is the inverse.
    """
    text = escape(path.decode("utf-8", "surrogateescape"))
    return rf"\x2d{text[1:]}" if text.startswith("-") else text


def unescape_path(text: bytes) -> bytes | None:
    """Return the path for a text; the inverse of `escape_path`. None if the text is not escaped."""
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
