"""Keeps pandas out of a process, where it is installed.

Arrow and DuckDB look for it at the first value that they convert, in case it is one of pandas. To
load it takes a fifth of a second and more, of each `weft search` too, and only Spark and Ray use
it.
"""

import sys
from importlib.util import find_spec


class _Refusal:
    """A finder of modules (PEP 451) that refuses pandas, and leaves all others to the next one."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(
                f"{name} is not installed, or kept out of this process", name=name
            )


def keep_out() -> None:
    """From now on, or until `let_in`, pandas is as good as not installed, unless this process has
    loaded it.
    """
    if _Refusal not in sys.meta_path:
        sys.meta_path.insert(0, _Refusal)


def keep_out_if_missing() -> None:
    """Where pandas is not installed, spare the search of all places for it, which takes DuckDB a
    tenth of a millisecond for each value of a statement.
    """
    is_known = _Refusal in sys.meta_path or "pandas" in sys.modules
    if not is_known and find_spec("pandas") is None:
        keep_out()


def let_in() -> None:
    """Undo `keep_out`."""
    if _Refusal in sys.meta_path:
        sys.meta_path.remove(_Refusal)
