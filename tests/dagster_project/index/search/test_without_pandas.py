"""A library that opens an index looks for pandas, where it is not installed, at most once."""

import subprocess
import sys

from tests.archives import Workspace

CODE = """
import sys
from collections import Counter
from dagster_project.config.settings import load_settings
from dagster_project.index.search.opened_index import open_index

looks = Counter()

class Absent:
    # pandas is not installed, and each look in the folders of packages is counted.
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        looks[name] += 1
        return None if name == "pandas" else self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Absent(finder) for finder in sys.meta_path]
index = open_index(load_settings(sys.argv[1]))
looks.clear()
for _ in range(3):
    assert index.search(["the compactor"]).hits.num_rows
print(looks["pandas"])
"""


def test_searches_look_in_no_folder_for_pandas(built_once: Workspace):
    done = subprocess.run(
        [sys.executable, "-c", CODE, built_once.config], capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.returncode) == ("0", 0), done.stderr
