"""What pyproject.toml cannot say: the pages of docs/ are installed inside the package, for `weft
help` and `weft init --notebook`.
"""

from pathlib import Path
from shutil import copyfile

from setuptools import setup
from setuptools.command.build_py import build_py


class WithDocs(build_py):
    """Copies the pages beside the modules of a wheel; in a clone they are read where they lie."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        folder = Path(self.build_lib, "dagster_project", "docs")
        folder.mkdir(parents=True, exist_ok=True)
        docs = Path(__file__).parent / "docs"
        for page in sorted((*docs.glob("*.md"), *docs.glob("*.ipynb"))):
            copyfile(page, folder / page.name)


setup(cmdclass={"build_py": WithDocs})
