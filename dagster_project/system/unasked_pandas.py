"""Keeps pandas out of a process, where it is installed.

Arrow and DuckDB look for it at the first value that they convert, in case it is one of pandas. To load it takes a fifth of
a second and more, of each `weft search` too, and only Spark and Ray use it.
"""

import sys


class _Refusal:
    """A finder of modules (PEP 451) that refuses pandas, and leaves all others to the next one."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is kept out of this process", name=name)


def keep_out() -> None:
    """From now on pandas is as good as not installed, unless this process has loaded it."""
    if _Refusal not in sys.meta_path:
        sys.meta_path.insert(0, _Refusal)


def let_in() -> None:
    """Undo `keep_out`."""
    if _Refusal in sys.meta_path:
        sys.meta_path.remove(_Refusal)
