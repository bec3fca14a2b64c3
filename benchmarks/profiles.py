"""The effect of each design's profile beside the default.

    python benchmarks/profiles.py [--corpus NAME ...] [--designs] [--every] [--state FOLDER] [--markdown]

A profile is what the table of docs/designs.md says to switch a design on: settings that a build
reads, each with an index of its own, and a profile of [search]. Prints nDCG@10, MRR@10, Recall@10
and Recall@100 per task, and how far each profile is ahead of the default query by query, with its
95 % interval and p-value; of egregora, which is about context, the share of the parts of each
question that a block covers, the share of its tokens that are right, and the share of the budget
used. With `--designs` the five designs stand beside the default with all that `design` sets and
their costs, on every collection if none is named: what `weft eval run --designs` measures on data of
one's own. A design that cuts the texts of a collection as the default does searches its index. Of
the documents with marked passages, whose right chunks depend on the cut, the last table has the
recall of the passages' bytes in the first 5,000 bytes of the hits.
"""

import json
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import held_out
import mail_collections as collections
import numpy as np
import tasks
from printing import new_parser, new_table
from retrieval import HEAD, ahead, show
from rich.table import Table

from dagster_project.config.settings import Settings, load_settings
from dagster_project.context.block_quality import measured_blocks
from dagster_project.index.publish.versions import current_version
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.models.embedders import make_embedder
from dagster_project.models.language_models import Reranker
from transforms.evaluation.metrics import DocumentSpan, passage_score
from transforms.evaluation.quality import bootstrap
from transforms.settings.conversations import ContextSettings
from transforms.settings.designs import DESIGNS
from transforms.settings.search import BUILT_IN_PROFILES, SearchSettings


class Profile(NamedTuple):
    """What a profile changes: sections that a build reads, the profile of [search], or all that a
    design sets.
    """

    built: Mapping[str, Mapping[str, str]]
    searched: str = "default"
    design: str = ""


DEFAULT = "default"
PROFILES = {
    DEFAULT: Profile({}),
    "pginbox, whole mails too": Profile({"chunks": {"policy": "message"}}),
    "pginbox, logs over 8,000 characters without vectors": Profile(
        {"chunks": {"log_vector_chars": "8000"}}
    ),
    **{name: Profile({}, design=name) for name in DESIGNS},
    "ra, later order": Profile({"document_chunks": {"chunker": "tree"}}, "sections_later"),
    "ra, its nodes, default search": Profile({"document_chunks": {"chunker": "tree"}}),
    "SecondBrain, a sentence before each chunk": Profile({"sentences": {"kind": "structural"}}),
    "Information Graph's chunks": Profile({"document_chunks": {"chunker": "semantic"}}),
}
CORPORA = ("sample", "pgsql")
_OF_DOCUMENTS = ("document_chunks", "sentences")
_OF_MAIL = ("chunks", "sentences")
READ = {
    **dict.fromkeys(("pgsql", "erofs", "linux-raid"), _OF_MAIL),
    **dict.fromkeys(("documents", "pages", "peps", "code"), _OF_DOCUMENTS),
    **dict.fromkeys(("conversations", "beam", "meetings"), ("conversations",)),
    "sample": ("chunks", "document_chunks", "conversations", "sentences"),
}
"""By collection the sections whose values change its index."""
COSTS = ("ms a query", "chunks", "MB")
_BYTES = 5_000
_SPANS = (
    "SELECT chunk_id, doc_id[10:-4], list_min([s.byte_start FOR s IN spans]), "
    "list_max([s.byte_end FOR s IN spans]) FROM chunks WHERE len(spans) > 0"
)
"""Chunks with the name of their document, `passages:NAME.md`, and their bytes."""


def main() -> None:
    """Build what is missing, search under each profile, print one table per task."""
    parser = new_parser(__doc__)
    parser.add_argument("--corpus", action="append", choices=READ, help="one corpus only")
    parser.add_argument("--designs", action="store_true", help="the designs with all they set")
    parser.add_argument(
        "--every", action="store_true", help="ask designs every query, not the part of held_out.py"
    )
    parser.add_argument(
        "--state", type=Path, help="where indexes are kept; default: a temporary folder"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print tables as docs/evaluation.md has them"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        state = arguments.state or Path(temporary)
        if arguments.designs:
            for name in arguments.corpus or READ:
                for shown in designs(name, state, arguments.every):
                    show(shown, arguments.markdown)
                if name == "documents":
                    show(passage_recall(state), arguments.markdown)
            return
        for name in arguments.corpus or CORPORA:
            for title, found in measured(name, state).items():
                show(table(title, found), arguments.markdown)
        if "sample" in (arguments.corpus or CORPORA):
            show(blocks(state / f"{DEFAULT}" / "sample" / "weft.toml"), arguments.markdown)


def measured(name: str, state: Path) -> dict[str, dict[str, dict[str, np.ndarray]]]:
    """`collections.MEASURES` of each query by task and profile; profiles that build nothing new
    here are left out.
    """
    found: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    known = {*READ[name]}
    for label, profile in PROFILES.items():
        if profile.built and not known & profile.built.keys() and profile.searched == DEFAULT:
            continue
        changes = {section: values for section, values in profile.built.items() if section in known}
        folder = state / (label if changes or profile.design else DEFAULT)
        corpus = tasks.corpus(name, folder, build=partial(_built, changes, profile.design))
        search = {**corpus.index.settings.model_dump(), **BUILT_IN_PROFILES[profile.searched]}
        settings = SearchSettings.model_validate(search)
        for task in corpus.tasks:
            ranked = tasks.weft_ranking(corpus, task, settings).ranked
            title = f"{task.name} ({len(task.queries):,} queries)"
            found.setdefault(title, {})[label] = task.measured(ranked)
        corpus.index.close()
    return found


def _built(changes: Mapping[str, Mapping[str, Any]], design: str, config: Path) -> SearchIndex:
    """The index of a settings file with some changes and a design, brought up to date."""
    text = config.read_text()
    if design and not text.startswith("design"):
        text = f'design = "{design}"\n{text}'
    for section, values in changes.items():
        lines = [f"{key} = {v if v.isdecimal() else json.dumps(v)}" for key, v in values.items()]
        if lines[0] in text:
            continue
        head = f"[{section}]\n"
        text = text if head in text else f"{text}\n{head}"
        text = text.replace(head, "\n".join([head.strip(), *lines, ""]))
    config.write_text(text)
    return tasks.built(config, {})


def designs(name: str, state: Path, asks_every: bool = False) -> list[Table]:
    """For each task of a collection a row per design: quality, how far the default is ahead, costs.

    Unless `asks_every`, of large collections every so manieth query is asked.
    """
    tables: dict[str, Table] = {}
    first: dict[str, np.ndarray] = {}
    for design in (DEFAULT, *DESIGNS):
        corpus = _of_design(name, design, state)
        megabytes = _megabytes(corpus.index.path)
        for task in corpus.tasks if asks_every else held_out.asked(corpus):
            ranked, seconds = tasks.weft_ranking(corpus, task)
            values = task.measured(ranked)
            title = f"{task.name} ({len(task.queries):,} queries)"
            columns = (
                "design",
                HEAD,
                "95 %",
                *collections.MEASURES[1:],
                "default ahead by",
                *COSTS,
            )
            shown = tables.setdefault(title, new_table(title, columns))
            interval = bootstrap(values[HEAD])
            before = first.setdefault(title, values[HEAD])
            shown.add_row(
                design,
                f"{interval.mean:.3f}",
                f"{interval.low:.3f}–{interval.high:.3f}",
                *(f"{values[measure].mean():.3f}" for measure in collections.MEASURES[1:]),
                "" if design == DEFAULT else ahead(before, values[HEAD])[0],
                f"{1000 * seconds / len(task.queries):.1f}",
                f"{corpus.index.chunk_count:,}",
                f"{megabytes:.1f}",
            )
        corpus.index.close()
    return [*tables.values()]


def passage_recall(state: Path) -> Table:
    """For each design the share of the bytes of passages that its first hits show."""
    folder = collections.corpora_folder() / "passages"
    questions = [json.loads(x) for x in (folder / "questions.jsonl").read_text().splitlines()]
    names = {question["corpus"] for question in questions}
    texts = {name: (folder / f"{name}.md").read_bytes().decode() for name in names}
    columns = ("design", "recall", "95 %", "default ahead by", "chunks")
    shown = new_table(f"bytes of passages in the first {_BYTES:,} of the hits", columns)
    default = np.zeros(len(questions))
    asked = [question["question"] for question in questions]
    for design in (DEFAULT, *DESIGNS):
        corpus = _of_design("documents", design, state)
        rows = corpus.index.connection.execute(_SPANS).fetchall()
        spans = {chunk: DocumentSpan(name, low, high) for chunk, name, low, high in rows}
        ranked, _ = tasks.weft_ranking(
            corpus, tasks.Task("passages", asked, [frozenset()] * len(asked))
        )
        values = np.array(
            [
                passage_score(
                    [
                        DocumentSpan(question["corpus"], *part)
                        for part in tasks.byte_ranges(
                            texts[question["corpus"]], question["references"]
                        )
                    ],
                    [spans[chunk] for chunk, _ in hits if chunk in spans],
                    _BYTES,
                ).recall
                for question, hits in zip(questions, ranked, strict=True)
            ]
        )
        default = values if design == DEFAULT else default
        interval = bootstrap(values)
        shown.add_row(
            design,
            f"{interval.mean:.3f}",
            f"{interval.low:.3f}–{interval.high:.3f}",
            "" if design == DEFAULT else ahead(default, values)[0],
            f"{corpus.index.chunk_count:,}",
        )
        corpus.index.close()
    return shown


def _of_design(name: str, design: str, state: Path) -> tasks.Corpus:
    """A collection under a design, in an index of its own if it cuts the texts in another way."""
    is_own = _cuts_otherwise(name, design)

    def build(config: Path) -> SearchIndex:
        text = config.read_text()
        if is_own and not text.startswith("design"):
            config.write_text(f'design = "{design}"\n{text}')
        tasks.built(config, {}).close()
        settings = load_settings(config, "" if design == DEFAULT else design)
        return SearchIndex(
            current_version(settings.root / "index"),
            make_embedder(settings.embedding),
            settings.terms,
            settings.search,
            Reranker(settings.rerank),
        )

    return tasks.corpus(name, state / design if is_own else state, build=build)


def _cuts_otherwise(name: str, design: str) -> bool:
    """True if a design sets a value that a build of the collection reads, and the default has
    another.
    """
    fields = Settings.model_fields
    return any(
        getattr(fields[section].get_default(call_default_factory=True), key) != value
        for section, values in DESIGNS.get(design, {}).items()
        if section in READ[name]
        for key, value in values.items()
    )


def _megabytes(published: Path) -> float:
    """The size of a published version with its arrays."""
    files = [published, *published.with_suffix(".arrays").rglob("*")]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def table(title: str, found: Mapping[str, Mapping[str, np.ndarray]]) -> Table:
    """One row per profile, and how far the default is ahead of it."""
    shown = new_table(title, ("profile", *collections.MEASURES, "default ahead by", "p"))
    default = found[DEFAULT][HEAD]
    for label, values in found.items():
        means = [f"{values[name].mean():.3f}" for name in collections.MEASURES]
        shown.add_row(
            label, *means, *(("", "") if label == DEFAULT else ahead(default, values[HEAD]))
        )
    return shown


def blocks(config: Path) -> Table:
    """Blocks of context of the sample's queries by default and as egregora makes them."""
    settings = load_settings(config)
    shown = new_table(
        "Blocks of context of the sample", ("profile", "coverage", "precision", "budget used")
    )
    for label, values in ((DEFAULT, {}), ("egregora", DESIGNS["egregora"]["context"])):
        context = ContextSettings.model_validate(values)
        means = measured_blocks(settings.model_copy(update={"context": context}))["means"]
        shown.add_row(label, *(f"{row['mean']:.3f}" for row in means))
    return shown


if __name__ == "__main__":
    main()
