"""Syntax trees are made by several threads at once."""

import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from transforms.documents import code
from transforms.documents.python_source import syntax_tree


def test_threads_make_trees_at_once():
    source, threshold = Path(code.__file__).read_text(), gc.get_threshold()

    def interrupt(phase: str, info: dict[str, int]) -> None:
        """Code that runs amid a parse lets another thread go on."""
        sum(range(20))

    gc.callbacks.append(interrupt)
    gc.set_threshold(20)
    try:
        with ThreadPoolExecutor(6) as pool:
            sizes = set(pool.map(lambda _: len(syntax_tree(source).body), range(60)))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(interrupt)
    assert sizes == {len(syntax_tree(source).body)}


def test_what_is_not_python_is_a_syntax_error():
    with pytest.raises(SyntaxError):
        syntax_tree("def f(:\n")
