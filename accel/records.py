"""Record: the base of every result, so that what a page shows can be saved, shared and loaded again."""

from __future__ import annotations

from typing import Any, Self

__all__ = ["Record", "RecordError", "encodable"]


class RecordError(ValueError):
    """Raised when saved data does not have the shape of the record it is read as."""


class Record:
    """Mixin for frozen dataclasses: conversion to and from plain Python data and JSON.

    Reading is strict: a missing field, or one of the wrong type, raises `RecordError` and names the field.

    >>> from accel import Cost
    >>> Cost.from_dict(Cost(flops=2, bytes_read=8).to_dict()) == Cost(flops=2, bytes_read=8)
    True
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the record as dicts, lists, numbers and strings."""
        import msgspec

        return msgspec.to_builtins(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Build the record from what `to_dict` returned; raise `RecordError` where that is impossible."""
        import msgspec

        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise RecordError(f"this is not a saved {cls.__name__}: {error}") from error

    def to_json(self) -> str:
        """Return the record as indented JSON text."""
        import msgspec

        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Build the record from JSON text; raise `RecordError` where that is impossible."""
        import msgspec

        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise RecordError(f"this is not a saved {cls.__name__}: {error}") from error


def encodable(name: str) -> str:
    r"""Return a name that can be printed and saved: a lone surrogate, which no encoding knows, is replaced.

    >>> encodable("f\ud800")
    'f\ufffd'
    """
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
