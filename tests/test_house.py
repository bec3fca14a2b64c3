"""How large the house, a file and a function may be; what is larger has its reason here."""

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGES = ("transforms", "assets", "dagster_project")
MOST_LINES, MOST_FUNCTION_LINES, MOST_PARAMETERS = 400, 60, 6

# Dagster hands each input, resource and configuration to an asset by a parameter of its name, click each option of
# a command, and the assistants' protocol each argument of a tool: their number is that of the words people may use.
DECLARED_BY_PARAMETERS = {
    "asset",
    "multi_asset",
    "asset_check",
    "multi_asset_check",
    "command",
    "tool",
}

CEILINGS = {"core": 57_500, "with extras": 72_085, "tests": 42_866}
"""Lines, which may only fall."""
COUNTED = (".py", ".html", ".css", ".js", ".sql")

EXTRA = re.compile(r"\bextras[./](?!registry\b)\w+")
"""A folder of extras, in an import or in a text."""

LARGER: dict[str, str] = {}
"""Path, or path and function, with the reason why it is larger."""


def modules() -> list[Path]:
    return sorted(
        f for package in PACKAGES for f in (ROOT / package).rglob("*.py") if "tests" not in f.parts
    )


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parsed(file)))


@cache
def functions(file: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        node for node in nodes(file) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The parameters a caller may fill; 0 where their number is that of declared inputs, options or arguments."""
    decorators = {
        ast.unparse(d).partition("(")[0].rpartition(".")[2] for d in function.decorator_list
    }
    if decorators & DECLARED_BY_PARAMETERS:
        return 0
    names = [
        a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    ]
    return len(names) - bool(names and names[0] in ("self", "cls"))


def lines(*folders: str, are_tests: bool = False) -> int:
    """The lines of the modules, pages, scripts and statements in folders of the repository, or of the tests there."""
    files = {
        file for folder in folders for file in (ROOT / folder).rglob("*") if file.suffix in COUNTED
    }
    counted = [file for file in files if ("tests" in file.relative_to(ROOT).parts) == are_tests]
    return sum(len(file.read_text().splitlines()) for file in counted)


def test_the_house_does_not_grow():
    extras = lines("dagster_project/extras")
    tests = lines("tests", "dagster_project/extras", are_tests=True)
    sizes = {"core": lines(*PACKAGES) - extras, "with extras": lines(*PACKAGES), "tests": tests}
    assert {name: size for name, size in sizes.items() if size > CEILINGS[name]} == {}


def test_the_core_names_no_extra():
    core = [
        file for file in modules() if not file.is_relative_to(ROOT / "dagster_project" / "extras")
    ]
    assert {
        name_of(file): place for file in core for place in EXTRA.findall(file.read_text())
    } == {}


def test_files_and_functions_are_short():
    larger = {}
    for file in modules():
        if (length := len(file.read_text().splitlines())) > MOST_LINES:
            larger[name_of(file)] = length
        for function in functions(file):
            assert function.end_lineno is not None
            lines, count = function.end_lineno - function.lineno + 1, parameters(function)
            if lines > MOST_FUNCTION_LINES or count > MOST_PARAMETERS:
                larger[f"{name_of(file)}:{function.name}"] = max(lines, count)
    assert set(larger) == set(LARGER), larger


def test_each_module_says_what_belongs_in_it():
    assert [name_of(file) for file in modules() if not ast.get_docstring(parsed(file))] == []


RENAMING = {
    "dagster_project/orchestration/sqlite_storage.py": "Dagster's history, which a build does without",
    "dagster_project/index/files/array_update.py": "within a folder that gets its name later",
    "dagster_project/index/files/arrays.py": "within a folder that gets its name later",
    "dagster_project/extras/graph/exporter.py": "an exchange of two folders",
    "dagster_project/lake/kept_footers.py": "a copy of an object, made again if it is lost",
    "dagster_project/lake/lake.py": "many files, whose folders are made durable together",
    "dagster_project/models/embedding_cache.py": "a damaged file is set aside",
    "dagster_project/remotes/landing.py": "many files, whose folders are made durable together",
    "dagster_project/sources/document_readers.py": "a cache, whose files are made again if they are lost",
    "dagster_project/system/durable.py": "the one place",
}
"""The modules that rename files, with the reason why they do it themselves."""


def renames(node: ast.AST) -> bool:
    """True for `path.replace(other)` and `path.rename(other)`: of strings and frames these take other arguments."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("replace", "rename")
        and len(node.args) == 1
        and not node.keywords
        and not isinstance(node.args[0], ast.Dict)
        and not ast.unparse(node.args[0]).startswith("columns")
    )


def test_a_new_name_is_durable():
    """A rename is in a folder, which is written later than the file unless somebody asks for it: `durable.put` does."""
    found = {name_of(f) for f in modules() if any(map(renames, nodes(f)))}
    assert found == {name for name in RENAMING if (ROOT / name).exists()}


# Packages that an extra brings, or that cost a second to load and that few commands need.
LAZY = {
    **dict.fromkeys(
        ("torch", "sentence_transformers", "transformers", "huggingface_hub"), "an extra"
    ),
    **dict.fromkeys(("onnxruntime", "google", "s3fs", "ir_measures", "scipy", "dkim"), "an extra"),
    **dict.fromkeys(("aiohttp", "botocore", "aiobotocore"), "comes with s3fs"),
    "dns": "comes with dkimpy",
    "cryptography": "receipts alone need it",
    "httpx2": "loaded with the client of the model service",
    "tokenizers": "its import loads what only embedding and token counts need",
    "asyncio": "a search needs none",
}
LAZY_MODULES = {
    "transforms.text.redaction": "compiles the patterns of secrets, which a search by its owner has no use for",
    "pyarrow.compute": "makes a function for each of Arrow's, which a search needs none of",
    "dagster._cli": "a third of a second, for `weft ui` alone",
    "dagster_project.cli.unchanged": "a build alone needs it",
    "dagster_project.cli.command": "loads what only a command that is done here needs",
    "dagster_project.extras.engines.spark": "needs the extra spark",
    "dagster_project.extras.engines.ray": "needs the extra ray",
    "transforms.formats.wikitext": "needs the extra wiki",
    "dagster_project.lake.referenced_texts": "loads the lake, which only an index without its texts needs",
    "dagster_project.lake.lake_backend": "loads Ibis, which only builds need",
    "dagster_project.index.publish.lens.lens_file": "loads Ibis, which only a lens needs",
    "dagster_project.remotes.http_archives": "loads httpx2, which only a fetch of such a remote needs",
    "dagster_project.extras.stores.store_session": "needs the extra s3",
    "dagster_project.servers.mcp": "needs the extra mcp",
    "transforms.operations.plots": "needs the extra plots",
}


def modules_in(statements: Iterable[ast.AST]) -> Iterator[str]:
    """The modules that statements import."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_modules_import_at_their_top():
    late = {
        (name_of(file), name)
        for file in modules()
        for function in functions(file)
        for name in modules_in(ast.walk(function))
        if name.partition(".")[0] not in LAZY and name not in LAZY_MODULES
    }
    assert late == set()


def test_one_file_uses_what_dagster_does_not_export():
    said = re.compile(r"(from|import) dagster\w*\._|__source_asset|step_context\b")
    private = {name_of(file) for file in modules() if said.search(file.read_text())}
    assert private == {"dagster_project/system/dagster_internals.py"}


COMMANDS = "backfill backup build context forget get init prune run search serve sources stripe thread verify"
SHARED = {
    **dict.fromkeys(COMMANDS.split(), "a command or a page, and what it calls"),
    **dict.fromkeys(
        ("EXTRA", "TABLES", "PROGRAM", "stages", "key_variable"), "the registry asks extras for it"
    ),
    **dict.fromkeys(
        ("VERSION", "FORMAT", "GROUP", "DOCUMENTS", "Lake", "Remotes"), "each subject has its own"
    ),
    "Thread": "of the pages and of the assistants",
}
"""The public names that several modules define, with the reason."""


def test_a_public_name_has_one_home():
    homes = defaultdict(set)
    for file in modules():
        for node in parsed(file).body:
            targets = (
                node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
            )
            for name in (getattr(target, "id", getattr(target, "name", "_")) for target in targets):
                homes[name].add(name_of(file))
    assert {n for n, files in homes.items() if len(files) > 1 and not n.startswith("_")} <= set(
        SHARED
    )


PARTICIPLES = {"asked", "told", "said", "kept", "found", "made", "gone", "seen", "wanted"}
NAMED_BY_PARTICIPLES = 3
"""Variables, parameters and functions named by what was done to a thing, not by what it is; they may only fall."""


def test_names_are_nouns():
    words = [
        vars(n).get("id", vars(n).get("arg", vars(n).get("name")))
        for f in modules()
        for n in nodes(f)
    ]
    assert sum(str(word).strip("_") in PARTICIPLES for word in words) <= NAMED_BY_PARTICIPLES


INVERTED = re.compile(
    r"(?:\A|[.;:] |\n\n *)(?:What|Of|Who(?:so)?ever|Whichever) (?!\d)|"
    r"\b(?:of which|is no|has none|stands|lies|told|anew|from nothing|what is of)\b(?! longer| one)"
)
"""Words by which sentences of pages, docstrings and texts of constants hide who does what."""


def test_sentences_say_who_does_what():
    strings = [
        n.value.value
        for f in modules()
        for n in nodes(f)
        if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
    ]
    texts = [*map(str, strings), *(page.read_text() for page in (ROOT / "docs").glob("*.md"))]
    assert [m.string[m.start() :][:80] for text in texts for m in INVERTED.finditer(text)] == []


SQL = re.compile(
    r"\b(SELECT|INSERT INTO|CREATE (OR REPLACE )?(TABLE|VIEW|MACRO|TEMP)|UPDATE .* SET|DELETE FROM|COPY|ATTACH)\b"
)
SQL_IN_PYTHON = 69
"""Lines of SQL in f-strings, which may only fall: a user's query, or names of tables, columns and files, compose them."""


def test_statements_are_in_sql_files():
    strings = [n for file in modules() for n in nodes(file) if isinstance(n, ast.JoinedStr)]
    with_sql = [n for n in strings if SQL.search(ast.unparse(n))]
    assert sum((n.end_lineno or 0) - n.lineno + 1 for n in with_sql) <= SQL_IN_PYTHON


def imported() -> dict[str, str]:
    """The packages that modules import at any place, each with one of the modules."""
    packages = {
        name.partition(".")[0]: name_of(f) for f in modules() for name in modules_in(nodes(f))
    }
    return {n: f for n, f in packages.items() if n not in {*sys.stdlib_module_names, *PACKAGES, ""}}


def asked_for(*left_out: str) -> Iterator[Requirement]:
    """What Weft asks for with all extras but some, and what that asks for in turn, each as it is asked for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    ours = [named for extra in extras if extra not in left_out for named in extras[extra]]
    waiting, seen = [Requirement(text) for text in [*project["dependencies"], *ours]], set()
    while waiting:
        one = waiting.pop()
        yield one
        if (
            one.name == "weft"
            or (key := (canonicalize_name(one.name), frozenset(one.extras))) in seen
        ):
            continue
        seen.add(key)
        with suppress(PackageNotFoundError):  # of an extra that is not installed here
            found = [Requirement(text) for text in requires(one.name) or []]
            known = [{"extra": extra} for extra in ("", *one.extras)]
            waiting += [r for r in found if not r.marker or any(map(r.marker.evaluate, known))]


def test_no_requirement_refuses_the_version_that_is_pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    parts = (line.partition("==") for line in lines)
    pinned = {canonicalize_name(name): version for name, _, version in parts}
    assert len(pinned) > 100
    refused = {
        str(one)
        for one in asked_for()
        if (version := pinned.get(canonicalize_name(one.name))) and version not in one.specifier
    }
    assert refused == set()


def test_every_package_that_is_imported_is_declared():
    names = packages_distributions()
    known = {canonicalize_name(one.name) for one in asked_for("dev", "bench", "docs")}
    missing = {
        package: file
        for package, file in imported().items()
        if package in names and not known & {canonicalize_name(name) for name in names[package]}
    }
    assert missing == {}
