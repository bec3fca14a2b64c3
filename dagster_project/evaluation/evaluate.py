"""The work of `weft eval`: an evaluation of the published index, its comparison with another, and
sweeps.
"""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl

from dagster_project.config.settings import Settings
from dagster_project.evaluation.evaluator import (
    IndexEvaluator,
    contents,
    drafting_tables,
    read_ground_truth,
    run_profiles,
)
from dagster_project.index.search.opened_index import open_index
from transforms.errors import (
    CheckFailedError,
    GroundTruthError,
    IndexUnavailableError,
    ModelMismatchError,
    SettingsError,
)
from transforms.evaluation import ground_truth, quality, report, trec
from transforms.evaluation.ground_truth import GroundTruth, as_yaml, from_retrieval_files
from transforms.evaluation.judgements import judgements
from transforms.evaluation.quality import paired_difference


def make_evaluator(
    settings: Settings, files: Sequence[Path] = (), profiles: Sequence[str] = ()
) -> IndexEvaluator:
    """The evaluator of these settings, of other files or profiles if there are some."""
    names = tuple(profiles) or settings.evaluation.profiles
    try:
        chosen = {name: settings.profile(name) for name in names}
    except ValueError as error:
        raise SettingsError(str(error)) from error
    return IndexEvaluator(
        settings.root / "eval",
        lambda: open_index(settings),
        tuple(files) or tuple(settings.base / name for name in settings.evaluation.queries),
        chosen,
    )


def report_of(
    settings: Settings, evaluator: IndexEvaluator, tag: str | None = None
) -> dict[str, Any]:
    """The report (`transforms.evaluation.report.report`) of the evaluator's queries, those of one
    tag unless it is None.
    """
    truth = with_tag(required_queries(evaluator), tag)
    index_contents = evaluator.contents(truth.relevance)
    changes = {name: settings.profile_changes(name) for name in evaluator.profiles}
    return report.report(
        report.Evaluation(
            pl.DataFrame(truth.queries),
            judgements(pl.DataFrame(truth.relevance), index_contents),
            pl.DataFrame(evaluator.run(truth.queries)),
            index_contents.chunks,
            evaluator.facts(),
        ),
        changes,
    )


def required_queries(evaluator: IndexEvaluator) -> GroundTruth:
    """The evaluator's queries; SettingsError if there are none."""
    truth = evaluator.ground_truth()
    if not truth.queries.num_rows:
        raise SettingsError(
            "there are no queries to evaluate: name a file in evaluation.queries or with --queries; "
            "`weft eval init` drafts one"
        )
    return truth


def with_tag(truth: GroundTruth, tag: str | None) -> GroundTruth:
    """The queries with a tag, all of them if it is None; GroundTruthError if none has it."""
    if tag is None:
        return truth
    queries = pl.DataFrame(truth.queries)
    tagged = queries.filter(queries["tags"].list.contains(tag))
    if tagged.is_empty():
        names = sorted({t for tags in queries["tags"] for t in tags})
        raise GroundTruthError(f"no query has the tag {tag!r}; there are {', '.join(names)}")
    relevance = pl.DataFrame(truth.relevance).join(
        tagged.select("query_id"), on="query_id", how="semi"
    )
    return GroundTruth(tagged.to_arrow(), relevance.to_arrow())


def drafted(settings: Settings, count: int) -> tuple[str, int]:
    """Ground truth drafted from the published index, as YAML, and how many queries it has."""
    with closing(open_index(settings)) as index:
        truth = ground_truth.draft_queries(*drafting_tables(index), count, "draft")
    if not truth.queries.num_rows:
        raise GroundTruthError(
            "the index holds no subject, heading, link or answered question to draft from"
        )
    return as_yaml(truth, ground_truth.NOTE), truth.queries.num_rows


def converted(queries: Path, qrels: Path, form: str, prefix: str) -> tuple[str, int]:
    """Ground truth of BEIR or TREC files, as YAML, and how many queries it has."""
    texts = [path.read_text(encoding="utf-8") for path in (queries, qrels)]
    truth = from_retrieval_files(texts[0], texts[1], form, qrels.name, prefix)
    return as_yaml(
        truth, f"Converted from {queries.name} and {qrels.name}."
    ), truth.queries.num_rows


def runs_report(qrels: Path, runs: Sequence[Path]) -> dict[str, Any]:
    """The measures of runs of TREC, named by their files; GroundTruthError names the fault."""
    texts = {}
    for path in (qrels, *runs):
        try:
            texts[path] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise GroundTruthError(
                f"{path} cannot be read ({error}); name a text file in the form of TREC"
            ) from error
    grades = trec.parse_grades(texts[qrels], qrels.name)
    names = {path: path.name if _is_only(path, runs) else str(path) for path in runs}
    return trec.run_report(
        grades, {names[path]: trec.parse_run(texts[path], str(path)) for path in runs}
    )


def _is_only(path: Path, paths: Sequence[Path]) -> bool:
    """True if no other path has the same file name."""
    return all(other == path or other.name != path.name for other in paths)


def require_quality(settings: Settings, new: Path, current: Path | None) -> None:
    """Refuse to publish a file that answers the configured queries worse than the current one.

    Raises CheckFailedError if HEADLINE of the first profile dropped and the whole interval of the
    paired difference is below 0. Both files answer the current queries. A current file that these
    settings cannot search, or one that cannot be opened, is not a standard to compare with.
    """
    if current is None or not settings.evaluation.queries:
        return
    name = settings.evaluation.profiles[0]
    try:
        before = _headline(settings, name, current)
    except (ModelMismatchError, IndexUnavailableError):
        return
    require_as_good(before, _headline(settings, name, new), name)


def require_as_good(before: pl.DataFrame, after: pl.DataFrame, profile: str) -> None:
    """Refuse values of queries (columns query_id, value) that are worse than those before, as
    `require_quality` says.
    """
    both = before.join(after, on="query_id", suffix="_after").sort("query_id")
    if both.height < quality.FEWEST:
        return
    difference, _ = paired_difference(both["value"].to_numpy(), both["value_after"].to_numpy())
    if difference.high < 0:
        worst = (
            both.sort(both["value_after"] - both["value"], "query_id")["query_id"].head(5).to_list()
        )
        raise CheckFailedError(
            f"nothing was published: {quality.HEADLINE} of profile {profile} fell by {-difference.mean:.3f} "
            f"[{-difference.high:.3f}, {-difference.low:.3f}] on {both.height} queries, most for {', '.join(worst)}; "
            "mend what changed, or set evaluation.publish_check = false"
        )


def _headline(settings: Settings, profile: str, path: Path) -> pl.DataFrame:
    """query_id and value of HEADLINE of each query that the index at `path` can be measured with."""
    search = settings.profile(profile)
    truth = read_ground_truth([settings.base / name for name in settings.evaluation.queries])
    queries, relevance = pl.DataFrame(truth.queries), pl.DataFrame(truth.relevance)
    with closing(open_index(settings, place=path)) as index:
        judged = judgements(relevance, contents(index, relevance))
        runs, _ = run_profiles(index, queries, {profile: search}, stages=("final",))
    values = quality.document_quality(pl.DataFrame(runs), judged, [profile])
    return values.filter(measure=quality.HEADLINE).select("query_id", "value")
