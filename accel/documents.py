"""Documents: records in files, with the schema they were written for and a digest that tells whether they are whole.

A file that was cut short, edited, or written by something else is refused with the reason: never trusted in part.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel.records import Record

__all__ = ["DocumentError", "Kind", "content_of", "digest", "kind_of_file", "payload", "render"]


class DocumentError(ValueError):
    """Raised for content that is not a whole, unaltered document; says why."""


@dataclass(frozen=True)
class Kind:
    """What a document holds: a word for it, and the schema of the record."""

    key: str
    """The field that holds the record, such as ``"machine"``; the format is then ``"accel machine"``."""
    schema: int


def render(kind: Kind, record: Record) -> bytes:
    """Return the text of a document, whose last byte closes it: every part short of the whole is no JSON document."""
    import msgspec

    encoded = msgspec.json.encode(record)
    document = {
        "format": f"accel {kind.key}",
        "schema": kind.schema,
        "sha256": digest(encoded),
        kind.key: msgspec.Raw(encoded),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1)


def payload(kind: Kind, content: bytes) -> bytes:
    """Return the JSON text of the record in a document; raise `DocumentError` where it cannot be trusted."""
    try:
        return _payload(kind, content)
    except RecursionError as error:
        raise DocumentError(f"it is nested deeper than any saved {kind.key}") from error


def _payload(kind: Kind, content: bytes) -> bytes:
    import msgspec

    try:
        document = msgspec.json.decode(content, type=_raw_document(kind))
    except msgspec.ValidationError as error:
        raise DocumentError(f"it is not a saved {kind.key} ({error})") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DocumentError(f"it is cut short or damaged ({error})") from error
    if document.format != f"accel {kind.key}":
        raise DocumentError(f"it holds {document.format!r}, not {f'accel {kind.key}'!r}")
    if document.schema != kind.schema:
        raise DocumentError(
            f"it was written with schema {document.schema}, and this version reads schema {kind.schema}"
        )
    text = bytes(getattr(document, kind.key))
    if document.sha256 != digest(text):
        raise DocumentError("its content does not match its digest: it was edited or damaged")
    return text


def _raw_document(kind: Kind) -> type[Any]:
    """Return the type of a document whose record is still text, so that its digest is taken before it is read."""
    import msgspec

    fields = [("format", str), ("schema", int), ("sha256", str), (kind.key, msgspec.Raw)]
    return msgspec.defstruct(f"Saved{kind.key.title()}", fields, forbid_unknown_fields=True)


def digest(text: bytes) -> str:
    """Return the digest of JSON text, whatever its white space (git may change line ends)."""
    import msgspec

    return hashlib.sha256(msgspec.json.format(text, indent=-1)).hexdigest()


def content_of(path: Path | str) -> bytes:
    """Return what is in a regular file; raise `DocumentError`, without waiting, for a folder, a pipe or a device."""
    with open(path, "rb", opener=_open_at_once) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise DocumentError(f"it is {kind_of_file(mode)}, not a regular file")
        return file.read()


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting, as a pipe would make us, for someone to write to it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has neither the flag nor such files


def kind_of_file(mode: int) -> str:
    """Name what is not a regular file."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFLNK: "a link to itself",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "a special file")
