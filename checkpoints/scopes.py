"""Scopes: prefixes of variable names that end at a `/`, matched by whole path parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from checkpoints.errors import PlanError, listed, near_names


def in_scope(name: str, scope: str) -> bool:
    """Whether `name` stands in `scope`: `Net/Conv2d_1` holds `Net/Conv2d_1/w`, not `Net/Conv2d_10/w`."""
    return name == scope or name.startswith(scope + "/")


def in_scopes(name: str, scopes: Iterable[str]) -> bool:
    """Whether `name` stands in one of `scopes`."""
    return any(in_scope(name, scope) for scope in scopes)


def clean_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Scopes without the blanks and the trailing slashes that people type, each once."""
    cleaned = (scope.strip().rstrip("/") for scope in scopes)
    return tuple(dict.fromkeys(scope for scope in cleaned if scope))


def all_scopes(names: Iterable[str]) -> list[str]:
    """Every scope that the variable names have, and the names themselves, in order."""
    found: dict[str, None] = {}
    for name in names:
        parts = name.split("/")
        for count in range(1, len(parts) + 1):
            found["/".join(parts[:count])] = None
    return list(found)


def require_matches(scopes: Sequence[str], names: Sequence[str], option: str) -> None:
    """Raises PlanError where a scope holds none of the variables; names near scopes.

    Args:
      scopes: cleaned scopes.
      names: names of variables.
      option: what the scopes were given with, for the message ("--trainable").
    """
    unmatched = [scope for scope in scopes if not any(in_scope(name, scope) for name in names)]
    if not unmatched:
        return
    known = all_scopes(names)
    lines = []
    for scope in unmatched:
        near = _near_scopes(scope, known)
        lines.append(f"{scope} (near it: {', '.join(near)})" if near else scope)
    tops = sorted({name.split("/")[0] for name in names})
    raise PlanError(
        f"{option} names {_counted(len(unmatched))} without a variable:\n{listed(lines)}",
        expected="scopes of the net, whole path parts, as in "
        + ", ".join(_examples(known) or tops[:3]),
        received=", ".join(scopes),
        next_step=f"Correct {option}; slimtune plan without it shows all variables.",
    )


def _counted(number: int) -> str:
    return "a scope" if number == 1 else f"{number} scopes"


def _near_scopes(scope: str, known: Sequence[str]) -> list[str]:
    """Near spellings, those of the same depth first."""
    depth = scope.count("/")
    same_depth = [name for name in known if name.count("/") == depth]
    return near_names(scope, same_depth, limit=3) or near_names(scope, list(known), limit=3)


def _examples(known: Sequence[str]) -> list[str]:
    second_level = [scope for scope in known if scope.count("/") == 1]
    return second_level[-2:]
