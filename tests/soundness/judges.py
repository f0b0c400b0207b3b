"""Two independent validators, and a strict reading of JSON, as judges of what a mask let through.

`jsonschema_rs` (Rust) reads numbers as Python's `json` does. `jsonschema` (Python) judges twice: on floats, and on exact decimals,
since in floats its `multipleOf` divides in binary and is wrong for some decimals.
"""

import decimal
import json
from typing import Any

import jsonschema
import jsonschema_rs
from jsonschema.validators import validator_for

_EXACT = decimal.Context(prec=2000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


class Judges:
    """All judges of one schema."""

    def __init__(self, schema: Any) -> None:
        kind = validator_for(schema, default=jsonschema.Draft202012Validator)
        self._rust = jsonschema_rs.validator_for(schema, validate_formats=True, offline=True)
        self._python = kind(schema, format_checker=kind.FORMAT_CHECKER)
        self._exact = kind(_read(json.dumps(schema), decimal.Decimal), format_checker=kind.FORMAT_CHECKER)
        self._has_divisor = '"multipleOf"' in json.dumps(schema)

    def faults(self, text: bytes) -> list[str]:
        """What is wrong with `text` as an instance; empty if nothing is."""
        try:
            value = _read(text.decode(), float)
        except ValueError as error:
            return [f"no strict JSON: {error}"]
        faults = []
        if not self._rust.is_valid(value):
            faults.append(f"jsonschema_rs: {_first(self._rust.iter_errors(value))}")
        with decimal.localcontext(_EXACT):
            if (error := _first(self._exact.iter_errors(_read(text.decode(), decimal.Decimal)))) is not None:
                faults.append(f"jsonschema, decimals: {error}")
        if not self._has_divisor and (error := _first(self._python.iter_errors(value))) is not None:
            faults.append(f"jsonschema: {error}")
        return faults


def repeats_a_key(text: bytes) -> bool:
    """Whether some object in a JSON text has a key twice."""
    has_repeated = False

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_repeated
        has_repeated |= len(dict(pairs)) < len(pairs)
        return dict(pairs)

    json.loads(text, object_pairs_hook=note)
    return has_repeated


def _read(text: str, parse_float: Any) -> Any:
    """A JSON text by the letter: no NaN, no control character in a string, no lone surrogate.

    Raises:
        ValueError: it is none.
    """
    value = json.loads(text, parse_float=parse_float, parse_constant=_refuse)
    json.dumps(value, ensure_ascii=False, default=str).encode()
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _first(errors: Any) -> str | None:
    try:
        return next((error.message[:300] for error in errors), None)
    except RecursionError:  # too deep a value for Python's stack: no verdict
        return None
