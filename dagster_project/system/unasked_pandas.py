"""Keeps pandas out of a process in which no statement imports it.

Arrow and DuckDB look for it at the first value that they convert, in case it is one of pandas. To load it takes a fifth of
a second and more, of each `weft search` too, and nothing here uses it."""

import sys
from dis import get_instructions, opmap
from importlib.machinery import ModuleSpec
from types import FrameType

_NAME = "pandas"
_IMPORT = opmap["IMPORT_NAME"]
_SYSTEM = {
    "_frozen_importlib", "_frozen_importlib_external", "importlib._bootstrap", "importlib._bootstrap_external",
}  # fmt: skip


def keep_out() -> None:
    """Do so from now on, in this process: to libraries that only look for it, pandas is not installed."""
    if not any(isinstance(finder, _Refusal) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Refusal())


class _Refusal:
    """A finder of modules (PEP 451) that knows one, and refuses it to C code."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """None, which lets others find the module; ModuleNotFoundError where no Python code asks for it."""
        if name == _NAME and not _is_asked(sys._getframe(1)):
            raise ModuleNotFoundError(f"{name} is kept out of this process", name=name)
        return None


def _is_asked(frame: FrameType | None) -> bool:
    """True if the innermost code outside of the import system is at an `import` of it, or imports by `importlib`."""
    while frame and frame.f_globals["__name__"] in _SYSTEM:
        frame = frame.f_back
    if frame is None:
        return False
    if frame.f_globals["__name__"].startswith("importlib"):
        return True
    if frame.f_code.co_code[frame.f_lasti] != _IMPORT:
        return False
    # C code that an `import` loads may look for it as well, as that of pyarrow.dataset does.
    imported = next(i.argval for i in get_instructions(frame.f_code) if i.offset == frame.f_lasti)
    return str(imported).partition(".")[0] == _NAME
