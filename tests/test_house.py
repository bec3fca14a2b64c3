"""How much a reader has to hold: tokens of the house, branches and lines of functions, names and words."""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from statistics import median

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGES = ("transforms", "assets", "dagster_project", "weft")
MOST_FUNCTION_LINES, MOST_PARAMETERS = 60, 6

# Dagster hands each input, resource and configuration to an asset by a parameter of its name, click
# each option of a command, and the assistants' protocol each argument of a tool: their number is
# that of the words people may use.
DECLARED_BY_PARAMETERS = {
    "asset",
    "multi_asset",
    "asset_check",
    "multi_asset_check",
    "command",
    "group",
    "tool",
}

TOKENS = {"core": 504_500, "extras": 137_900, "tests": 453_300}
"""Tokens of Python without comments and docstrings, which count ideas and not layout. A commit that
raises one says what its users get.
"""
WORDS = {"sql": 14_900, "toml": 20_900}
"""Words of the statements and tables beside the modules."""
NO_IDEAS = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}

MANY_BRANCHES, MOST_BRANCHES = 15, 20
WITH_MANY_BRANCHES = 27
"""Functions with more than 15 branches, which may only fall; none has more than 20."""
DEEP, NESTED_DEEPLY = 5, 6
"""Functions with so many blocks within each other, which may only fall."""
MEDIAN_LINES = 9
FORMATTED_BY_HAND = 0
"""Statements that the formatter leaves alone; at most 60, and only tables that a reader compares."""

BRANCHES = (
    ast.If,
    ast.For,
    ast.While,
    ast.IfExp,
    ast.BoolOp,
    ast.ExceptHandler,
    ast.comprehension,
    ast.match_case,
    ast.Assert,
)
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)

EXTRA = re.compile(r"\bextras[./]\w+")
"""A folder of extras, in an import or in a text."""


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
    """The parameters a caller may fill; 0 where their number is that of declared inputs, options or
    arguments.
    """
    decorators = {
        ast.unparse(d).partition("(")[0].rpartition(".")[2] for d in function.decorator_list
    }
    if decorators & DECLARED_BY_PARAMETERS:
        return 0
    names = [
        a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    ]
    return len(names) - bool(names and names[0] in ("self", "cls"))


def room_of(file: Path) -> str:
    parts = file.relative_to(ROOT).parts
    if "tests" in parts:
        return "tests"
    return "extras" if "extras" in parts else "core"


def tokens(file: Path) -> int:
    """The tokens of a module, without comments, docstrings and layout."""
    text = file.read_text()
    count = sum(
        t.type not in NO_IDEAS for t in tokenize.generate_tokens(io.StringIO(text).readline)
    )
    return count - sum(map(is_text, nodes(file)))


def is_text(node: ast.AST) -> bool:
    """True for a docstring, of a module, a function or a constant."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def branches(function: ast.AST) -> int:
    return sum(isinstance(node, BRANCHES) for node in ast.walk(function))


def depth(node: ast.AST, above: int = 0) -> int:
    """The blocks within each other below a node; `elif` is beside its `if`, and functions begin at 0."""
    deepest = above
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        deepest = max(deepest, depth(child, above + (isinstance(child, BLOCKS) and not is_elif)))
    return deepest


def test_the_house_does_not_grow():
    sizes: Counter[str] = Counter()
    for folder in (*PACKAGES, "tests"):
        for file in (ROOT / folder).rglob("*.py"):
            sizes[room_of(file)] += tokens(file)
    assert {name: size for name, size in sizes.items() if size > TOKENS[name]} == {}
    words = {
        kind: sum(
            len(f.read_text().split()) for p in PACKAGES for f in (ROOT / p).rglob(f"*.{kind}")
        )
        for kind in WORDS
    }
    assert {kind: count for kind, count in words.items() if count > WORDS[kind]} == {}


def test_the_formatter_decides_the_layout():
    marks = re.compile(r"# fmt: ?(off|skip)$", re.MULTILINE)
    files = [
        f for folder in (*PACKAGES, "tests", "benchmarks") for f in (ROOT / folder).rglob("*.py")
    ]
    assert sum(len(marks.findall(file.read_text())) for file in files) <= FORMATTED_BY_HAND


def test_the_core_names_no_extra():
    core = [
        file for file in modules() if not file.is_relative_to(ROOT / "dagster_project" / "extras")
    ]
    assert {
        name_of(file): place for file in core for place in EXTRA.findall(file.read_text())
    } == {}


MOST_CHARACTERS = 140
BLOCK_BEGINS = re.compile(r"<(?:p|div|section|ul|ol|li|table|tr|td|th|dl|dt|dd|form|nav|h[1-4])\b")


def test_templates_have_a_block_a_line():
    """No formatter knows both Jinja and the blanks that HTML shows, so that a test reads them."""
    web = ROOT / "dagster_project" / "extras" / "web"
    pages = [line for file in web.rglob("*.html") for line in file.read_text().splitlines()]
    assert [line for line in pages if len(line) > MOST_CHARACTERS] == []
    assert [line for line in pages if len(BLOCK_BEGINS.findall(line)) > 1] == []


def named_functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    return (
        (f"{name_of(file)}:{function.name}", function)
        for file in modules()
        for function in functions(file)
    )


def line_count(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def test_functions_fit_on_a_screen():
    lengths = {name: line_count(function) for name, function in named_functions()}
    long = {name: length for name, length in lengths.items() if length > MOST_FUNCTION_LINES}
    assert long == {}
    assert median(map(line_count, (f for _, f in named_functions()))) <= MEDIAN_LINES
    assert {
        name: count for name, f in named_functions() if (count := parameters(f)) > MOST_PARAMETERS
    } == {}


def test_functions_decide_few_things():
    counts = {name: branches(function) for name, function in named_functions()}
    many = {name: count for name, count in counts.items() if count > MANY_BRANCHES}
    assert len(many) <= WITH_MANY_BRANCHES, many
    most = {name: count for name, count in many.items() if count > MOST_BRANCHES}
    assert most == {}
    deep = {name: count for name, f in named_functions() if (count := depth(f)) >= DEEP}
    assert len(deep) <= NESTED_DEEPLY, deep


def test_each_module_says_what_belongs_in_it():
    assert [name_of(file) for file in modules() if not ast.get_docstring(parsed(file))] == []


RENAMING = {
    "dagster_project/orchestration/sqlite_storage.py": "Dagster's history, which a build does without",
    "dagster_project/index/files/array_update.py": "within a folder that gets its name later",
    "dagster_project/index/files/arrays.py": "within a folder that gets its name later",
    "dagster_project/extras/graph/exporter.py": "an exchange of two folders",
    "dagster_project/lake/recorded_footers.py": "a copy of an object, made again if it is lost",
    "dagster_project/lake/lake.py": "many files, whose folders are made durable together",
    "dagster_project/models/embedding_cache.py": "a damaged file is set aside",
    "dagster_project/remotes/landing.py": "many files, whose folders are made durable together",
    "dagster_project/sources/document_readers.py": "a cache, whose files are made again if they are lost",
    "dagster_project/system/durable.py": "the one place",
}
"""The modules that rename files, with the reason why they do it themselves."""


def renames(node: ast.AST) -> bool:
    """True for `path.replace(other)` and `path.rename(other)`: of strings and frames these take
    other arguments.
    """
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
    """A rename is in a folder, which is written later than the file unless somebody asks for it:
    `durable.put` does.
    """
    found = {name_of(f) for f in modules() if any(map(renames, nodes(f)))}
    assert found == {name for name in RENAMING if (ROOT / name).exists()}


# Packages that an extra brings, or that cost a second to load and that few commands need.
LAZY = {
    **dict.fromkeys(
        ("torch", "sentence_transformers", "transformers", "huggingface_hub"), "an extra"
    ),
    **dict.fromkeys(
        ("onnxruntime", "google", "s3fs", "ir_measures", "scipy", "dkim", "keyring"), "an extra"
    ),
    **dict.fromkeys(("aiohttp", "botocore", "aiobotocore"), "comes with s3fs"),
    "dns": "comes with dkimpy",
    "cryptography": "receipts alone need it",
    "platformdirs": "a command that its user allows needs it",
    "httpx2": "loaded with the client of the model service",
    "tokenizers": "its import loads what only embedding and token counts need",
    "asyncio": "a search needs none",
}
LAZY_MODULES = {
    "transforms.text.redaction": "compiles the patterns of secrets, which a search by its owner has no use for",
    "pyarrow.compute": "makes a function for each of Arrow's, which a search needs none of",
    "importlib.metadata": "its reader loads the library of mail, which no command without other packages' extras needs",
    "dagster._cli": "a third of a second, for `weft ui` alone",
    "dagster_project.ledger.last_look": "a build alone needs it",
    "dagster_project.cli.command": "loads what only a command that is done here needs",
    "dagster_project.servers.readings": "loads what searches, which a command beside a server needs not",
    "dagster_project.servers.context_reading": "loads more than a search needs",
    "dagster_project.cli.own_answers": "loads what searches, which a command beside a server needs not",
    "dagster_project.cli.render.hits": "loads Rich, which JSON needs not",
    "dagster_project.cli.render.explanations": "loads Arrow and Polars, which hits need not",
    "dagster_project.extensions": "declares what extras add, which a command of the core needs not",
    "multiprocessing": "a command beside a server starts no process",
    "click.shell_completion": "only a shell that completes words needs it",
    "dagster_project.config.settings": "loads pydantic, which a command beside a server needs not",
    "dagster_project.config.source_settings": "loads pydantic, which a command beside a server needs not",
    "dagster_project.system.disk_space": "loads NumPy, which only the explanation of a fault needs",
    "dagster_project.index.search.statements.sql": "loads DuckDB, which only the completion of an id needs",
    "dagster_project.extras.engines.spark": "needs the extra spark",
    "dagster_project.extras.engines.ray": "needs the extra ray",
    "transforms.formats.wikitext": "needs the extra wiki",
    "dagster_project.lake.referenced_texts": "loads the lake, which only an index without its texts needs",
    "dagster_project.lake.lake_backend": "loads Ibis, which only builds need",
    "dagster_project.index.publish.lens.lens_file": "loads Ibis, which only a lens needs",
    "dagster_project.remotes.http_archives": "loads httpx2, which only a fetch of such a remote needs",
    "dagster_project.extras.stores.store_session": "needs the extra s3",
    "dagster_project.servers.mcp": "needs the extra mcp",
    "dagster_project.orchestration.build": "loads Dagster, which a search from Python needs not",
    "dagster_project.orchestration.instance": "loads Dagster, which a search from Python needs not",
    "transforms.operations.plots": "needs the extra plots",
    "dagster_project.cli.follow": "loads Dagster, which a server needs not",
    "dagster_project.cli.designs": "loads what builds, as a sweep",
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


COMMANDS = "ask backfill backup build context forget get init prune run search serve sources stripe thread verify"
SHARED = {
    **dict.fromkeys(COMMANDS.split(), "a command or a page, and what it calls"),
    **dict.fromkeys(
        ("EXTRA", "TABLES", "PROGRAM", "stages", "key_variable"), "extensions.py asks extras for it"
    ),
    **dict.fromkeys(
        ("VERSION", "FORMAT", "GROUP", "DOCUMENTS", "Lake", "Remotes"), "each subject has its own"
    ),
    "Index": "of the public module, and what composition hands to it",
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
"""Variables, parameters and functions named by what was done to a thing, not by what it is; they
may only fall.
"""


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
ONE_LINE_BREAK = re.compile(r"(?<!\n)\n *(?![\n ])")


def test_sentences_say_who_does_what():
    strings = [
        n.value.value
        for f in modules()
        for n in nodes(f)
        if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
    ]
    pages = [page.read_text() for page in (ROOT / "docs").glob("*.md")]
    texts = [ONE_LINE_BREAK.sub(" ", text) for text in (*map(str, strings), *pages)]
    assert [m.string[m.start() :][:80] for text in texts for m in INVERTED.finditer(text)] == []


SQL = re.compile(
    r"\b(SELECT|INSERT INTO|CREATE (OR REPLACE )?(TABLE|VIEW|MACRO|TEMP)|UPDATE .* SET|DELETE FROM|COPY|ATTACH)\b"
)
SQL_IN_PYTHON = 69
"""Lines of SQL in f-strings, which may only fall: a user's query, or names of tables, columns and
files, compose them.
"""


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
    """What Weft asks for with all extras but some, and what that asks for in turn, each as it is
    asked for.
    """
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
