"""How well triage finds which earlier issue one repeats, and how right its confidences are.

    python benchmarks/triage.py [SETTINGS]

The issues of the shipped sample, whose frontmatter names what they repeat (`duplicate_of`), and of
a built linux-erofs, named by its settings file, the cover letters and lone patches, of which those
of one series repeat each other: once as they are, once without their titles. The confidences of a
collection are fitted without it, on the other one; the constants printed last, on both, are those
of `dagster_project/extras/triage/transforms/duplicates.py`.
"""

import json
import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import polars as pl
from printing import new_parser, new_table
from rich.console import Console

from dagster_project.config.settings import load_settings
from dagster_project.extras.triage.transforms.duplicates import Repeat, repeats
from dagster_project.extras.triage.transforms.items import issue_items
from dagster_project.index.publish.versions import current_version
from dagster_project.models.embedders import make_embedder
from transforms.documents.files import RawFile, read_documents
from transforms.settings.documents import DocumentSettings
from transforms.settings.models import EmbeddingSettings
from transforms.settings.search import TermSettings

_SAMPLE = Path(__file__).parents[1] / "data" / "sample" / "issues"
_DIFF = re.compile(r"^(?:---$|diff --git )", re.M)
_COVERS = """
    SELECT series_id, p.title, body FROM patch_series p JOIN messages m USING (message_id)
    WHERE message_id = patch_id AND (p.is_cover OR p.part IS NULL) ORDER BY effective_at, message_id
"""
_BINS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
_RIDGE = 1.0
_STEPS = 50


class Items(NamedTuple):
    """Items in the order in which they came; those of one group repeat each other."""

    name: str
    titles: pl.Series
    texts: pl.Series
    groups: Sequence[str]


class Judged(NamedTuple):
    """What triage says of a collection, and of each of these whether it is right."""

    items: Items
    found: Sequence[Repeat]
    right: np.ndarray


def main() -> None:
    """Print two tables and the constants."""
    parser = new_parser(__doc__)
    parser.add_argument(
        "settings", nargs="?", type=Path, help="settings file of a built linux-erofs"
    )
    path = parser.parse_args().settings
    collections = [sample()]
    if path:
        covers = erofs(path)
        collections += [
            covers,
            covers._replace(name="the same, no titles", titles=pl.Series([""] * len(covers.texts))),
        ]
    judged = [judge(items) for items in collections]
    console, figures = Console(width=140), new_table("repeats", ("collection", *_FIGURES))
    curve = new_table(
        "confidence",
        (
            "collection",
            *(f"{a:.1f}-{b:.1f}" for a, b in zip(_BINS, _BINS[1:], strict=False)),
            "Brier",
        ),
    )
    for own in judged:
        others = [
            j
            for j in judged
            if (j.items.name == judged[0].items.name) != (own.items.name == judged[0].items.name)
        ]
        calibration = fitted(others[:1]) if others else None
        said = np.array([r.confidence(*([calibration] if calibration else [])) for r in own.found])
        figures.add_row(own.items.name, *_figures(own, said))
        curve.add_row(own.items.name, *_curve(said, own.right))
    console.print(figures)
    console.print(curve)
    if path:
        console.print(f"fitted on both: {tuple(round(c, 2) for c in fitted(judged[:2]))}")


def sample() -> Items:
    """The issues of the sample."""
    files = [RawFile(p.name, p.read_bytes()) for p in sorted(_SAMPLE.glob("*.md"))]
    documents = read_documents(
        files, source="issues", partition="issues/all", settings=DocumentSettings()
    ).documents
    issues = issue_items(documents)
    facts = {
        f"issues:{fact['number']}": fact
        for fact in map(json.loads, documents["frontmatter"].to_pylist())
    }
    groups = [facts[f"issues:{n}"].get("duplicate_of") or str(n) for n in issues["number"]]
    return Items("issues of the sample", issues["title"], issues["text"], groups)


def erofs(path: Path) -> Items:
    """The cover letters and lone patches of linux-erofs, without their diffs."""
    with closing(
        duckdb.connect(str(current_version(load_settings(path).root / "index")), read_only=True)
    ) as index:
        series, titles, bodies = zip(*index.execute(_COVERS).fetchall(), strict=True)
    return Items(
        "linux-erofs covers",
        pl.Series(titles),
        pl.Series([_DIFF.split(b, 1)[0] for b in bodies]),
        series,
    )


def judge(items: Items) -> Judged:
    """The repeats that triage names, and which are right."""
    texts = [f"{title}\n{text}" for title, text in zip(items.titles, items.texts, strict=True)]
    vectors = make_embedder(EmbeddingSettings()).embed_documents(texts)
    found = list(repeats(items.titles, items.texts, vectors, TermSettings()))
    return Judged(
        items, found, np.array([items.groups[r.row] == items.groups[r.earlier] for r in found])
    )


def fitted(collections: Sequence[Judged]) -> tuple[float, float]:
    """The logistic regression of being right on the excess, each collection counting the same
    (Newton's method).
    """
    rows = np.array([[1.0, r.excess] for j in collections for r in j.found])
    right = np.concatenate([j.right for j in collections]).astype(float)
    counts = np.concatenate([np.full(len(j.found), 1000 / len(j.found)) for j in collections])
    weights = np.zeros(2)
    for _ in range(_STEPS):
        said = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (counts * (right - said)) - _RIDGE * weights
        curvature = (rows * (counts * said * (1 - said))[:, None]).T @ rows + _RIDGE * np.eye(2)
        weights = weights + np.linalg.solve(curvature, slope)
    return float(weights[0]), float(weights[1])


_FIGURES = (
    "items",
    "repeats",
    "top 1",
    "top 3",
    "said ≥ .5",
    "of these right",
    "said ≥ .8",
    "of these right ",
)


def _figures(judged: Judged, said: np.ndarray) -> list[str]:
    groups = judged.items.groups
    again = {row for row in range(len(groups)) if groups[row] in set(groups[:row])}
    first, any_ = (
        {r.row for r, ok in zip(judged.found, judged.right, strict=True) if ok and r.rank <= n}
        for n in (1, 3)
    )
    shown = [str(len(groups)), str(len(again))]
    shown += [f"{len(again & found) / len(again):.3f}" for found in (first, any_)]
    for floor in (0.5, 0.8):
        sure = said >= floor
        shown += [str(int(sure.sum())), f"{judged.right[sure].mean():.3f}" if sure.any() else "–"]
    return shown


def _curve(said: np.ndarray, right: np.ndarray) -> list[str]:
    """For each bin the mean confidence, the share that is right, and how many there are; the Brier
    score.
    """
    cells = []
    for low, high in zip(_BINS, _BINS[1:], strict=False):
        inside = (said >= low) & ((said < high) | (high == 1))
        cells.append(
            f"{said[inside].mean():.2f} / {right[inside].mean():.2f} ({inside.sum()})"
            if inside.any()
            else "–"
        )
    return [*cells, f"{((said - right) ** 2).mean():.3f}"]


if __name__ == "__main__":
    main()
