"""Train the multilingual table: rows of other languages beside those of the `weft` table.

    python benchmarks/table/multilingual.py PAIRS OUT [--pieces 44000] [--rounds 14]

PAIRS comes from `parallel.py`. A text in English is the sum of its rows of the `weft` table; the rows
of new pieces are fitted by least squares, so that the sum of a translation's rows points there
(Reimers and Gurevych 2020, with a static student). Words that English and other languages share are
fitted, too, drawn to the row they have by the frequency that they have in English; all other rows stay
as they are. OUT gets `table.safetensors` and `tokenizer.json`.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from scipy.sparse import csr_matrix
from tokenizers import Tokenizer, models, normalizers, trainers

sys.path.insert(0, str(Path(__file__).parents[1]))
from printing import new_parser

from dagster_project.models import static
from transforms.hashing import text_hash

UNSPACED = "[\\u3041-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff\\uff66-\\uff9f]+"
_MOST_CHARS = 400
_RIDGE, _PRIOR = 0.3, 3.0
"""Weight by which a new row is drawn to 0, and a word of English to its row, for each time."""
_SHARED_MORE_OFTEN = 3.0
"""A word of the `weft` table is fitted if it is so much more frequent in other languages."""
_UNKNOWN = 1
"""The row of signs that no text has: beside one the known signs of a run keep theirs."""
_POWER = 0.5
"""Texts count by this power of their length less: long ones hold many words whose rows nobody can tell apart."""


def main() -> None:
    """Write the table and its tokenizer."""
    parser = new_parser(__doc__)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pieces", type=int, default=44_000)
    parser.add_argument("--rounds", type=int, default=14)
    parser.add_argument("--most", type=int, default=10_000, help="pairs of a part in a language")
    arguments = parser.parse_args()
    own = load_file(static._OWN["weft"] / "table.safetensors")
    rows = own["rows"] * own["scale"][:, None]
    pairs = sample(map(json.loads, arguments.pairs.open()), arguments.most)
    english = [pair["english"][:_MOST_CHARS] for pair in pairs]
    other = [pair["other"][:_MOST_CHARS] for pair in pairs]
    content, count = extended(pairs, arguments.pieces)
    arguments.out.mkdir(parents=True, exist_ok=True)
    # `Tokenizer.save` writes one piece for each row, so that a second one with that row is lost.
    (arguments.out / "tokenizer.json").write_text(content)
    tokenizer = Tokenizer.from_str(content)
    print(f"{len(pairs):,} pairs, {count:,} rows, {time.process_time():.0f} s", flush=True)
    seen = bags(static.read_tokenizer("weft"), english, len(rows))
    targets = seen @ rows
    print(f"targets, {time.process_time():.0f} s", flush=True)
    fitted = bags(tokenizer, other, count)
    table = fit(fitted, targets, rows, np.asarray(seen.sum(axis=0)).ravel(), arguments.rounds)
    scale = np.maximum(np.abs(table).max(axis=1), 1e-8) / 127
    stored = np.round(table / scale[:, None]).astype(np.int8)
    stored[: len(rows)][(table[: len(rows)] == rows).all(axis=1)] = own["rows"][
        (table[: len(rows)] == rows).all(axis=1)
    ]
    is_same = (table[: len(rows)] == rows).all(axis=1)
    scale[: len(rows)][is_same] = own["scale"][is_same]
    save_file(
        {"rows": stored, "scale": scale.astype(np.float32)}, arguments.out / "table.safetensors"
    )


def sample(pairs: Iterable[dict[str, str]], most: int) -> list[dict[str, str]]:
    """At most so many pairs of each part in each language, by the hash of their texts."""
    by_part: dict[tuple[str, str], list[tuple[str, dict[str, str]]]] = {}
    for pair in pairs:
        key = text_hash(pair["english"])
        by_part.setdefault((pair["language"], pair["part"]), []).append((key, pair))
    return [
        pair
        for found in by_part.values()
        for _, pair in sorted(found, key=lambda one: one[0])[:most]
    ]


def extended(pairs: Sequence[dict[str, str]], pieces: int) -> tuple[str, int]:
    """The tokenizer of the `weft` table with pieces of the other texts, as JSON, and the number of its rows.

    BERT takes Chinese and Japanese signs one by one. Here they stay together in runs, and the longest
    known piece of a run is cut off first. A piece has the same row at each place of a run.
    """
    base = json.loads((static._OWN["weft"] / "tokenizer.json").read_text())
    base["normalizer"]["handle_chinese_chars"] = False
    base["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "BertPreTokenizer"},
            {
                "type": "Split",
                "pattern": {"Regex": UNSPACED},
                "behavior": "Isolated",
                "invert": False,
            },
        ],
    }
    vocabulary = base["model"]["vocab"]
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.normalizer = normalizers.BertNormalizer(handle_chinese_chars=False)
    learner.pre_tokenizer = Tokenizer.from_str(json.dumps(base)).pre_tokenizer
    learner.train_from_iterator(
        balanced(pairs),
        trainers.WordPieceTrainer(
            vocab_size=pieces + 12_000,
            min_frequency=4,
            limit_alphabet=7_000,
            special_tokens=["[UNK]"],
        ),
    )
    rank = sorted(learner.get_vocab().items(), key=lambda item: item[1])
    base_rows = count = len(vocabulary)
    for piece, _ in rank:
        if count - base_rows >= pieces:
            break
        bare = piece.removeprefix("##")
        forms = (bare, f"##{bare}") if _is_unspaced(bare) else (piece,)
        known = [vocabulary[form] for form in forms if form in vocabulary]
        row = known[0] if known else count
        count += not known
        vocabulary.update({form: row for form in forms if form not in vocabulary})
    for sign in map(chr, (*range(0x3041, 0x3100), *range(0x4E00, 0xA000))):
        row = next((vocabulary[f] for f in (sign, f"##{sign}") if f in vocabulary), _UNKNOWN)
        vocabulary.setdefault(sign, row)
        vocabulary.setdefault(f"##{sign}", row)
    return json.dumps(base, ensure_ascii=False, separators=(",", ":")), count


def _is_unspaced(piece: str) -> bool:
    return any("\u3041" <= sign <= "\u9fff" for sign in piece)


def balanced(pairs: Sequence[dict[str, str]]) -> Iterator[str]:
    """The other texts, those of a language with few of them more than once."""
    sizes = Counter[str]()
    for pair in pairs:
        sizes[pair["language"]] += len(pair["other"])
    most = max(sizes.values())
    for pair in pairs:
        times = min(4, round((most / sizes[pair["language"]]) ** 0.5))
        yield from [pair["other"]] * max(1, times)


def bags(tokenizer: Any, texts: Sequence[str], width: int) -> csr_matrix:
    """How often each token is in each text, float32 of shape (texts, width)."""
    indices, edges = [], [0]
    for start in range(0, len(texts), 4096):
        batch = list(texts[start : start + 4096])
        for encoded in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
            indices.append(np.array(encoded.ids, np.int32))
            edges.append(edges[-1] + len(encoded.ids))
    flat = np.concatenate(indices)
    found = csr_matrix((np.ones(len(flat), np.float32), flat, edges), shape=(len(texts), width))
    found.sum_duplicates()
    return found


def fit(
    other: csr_matrix, targets: np.ndarray, rows: np.ndarray, in_english: np.ndarray, rounds: int
) -> np.ndarray:
    """Rows for which `other @ rows` is near the targets, by conjugate gradients on the normal equations."""
    count = other.shape[1]
    table = np.zeros((count, rows.shape[1]), np.float32)
    table[: len(rows)] = rows
    used = np.asarray(other.sum(axis=0)).ravel()
    is_free = used > 0
    is_free[: len(rows)] &= used[: len(rows)] > _SHARED_MORE_OFTEN * in_english
    is_free[:5] = False
    free = np.flatnonzero(is_free)
    print(
        f"{len(free):,} rows are fitted, {np.sum(free < len(rows)):,} of them of the weft table",
        flush=True,
    )
    weight = np.asarray(other.sum(axis=1)).ravel().clip(1) ** -_POWER
    weight /= np.linalg.norm(targets, axis=1).clip(0.3) ** 0.5
    scaled = other.multiply(weight[:, None]).tocsr().astype(np.float32)
    inside = scaled[:, free].tocsr()
    start = table[free]
    residual = targets * weight[:, None] - scaled @ table
    penalty = np.full(len(free), _RIDGE, np.float32)
    shared = free[free < len(rows)]
    penalty[: len(shared)] += _PRIOR * np.minimum(in_english[shared], 50)
    turned = inside.T.tocsr()
    right = turned @ residual
    with ThreadPool(2) as pool:
        halves = pool.map(
            lambda own: conjugate(inside, turned, np.ascontiguousarray(own), penalty, rounds),
            np.array_split(right, 2, axis=1),
        )
    step = np.concatenate(halves, axis=1)
    table[free] = start + step
    return table


def conjugate(
    inside: csr_matrix, turned: csr_matrix, right: np.ndarray, penalty: np.ndarray, rounds: int
) -> np.ndarray:
    """The solution of (X'X + penalty) d = right for all columns at once, preconditioned by the diagonal."""
    diagonal = np.asarray(inside.multiply(inside).sum(axis=0)).ravel() + penalty
    found, left = np.zeros_like(right), right.astype(np.float32)
    scaled = left / diagonal[:, None]
    direction, before = scaled.copy(), (left * scaled).sum(axis=0)
    for number in range(rounds):
        product = turned @ (inside @ direction) + penalty[:, None] * direction
        length = before / (direction * product).sum(axis=0).clip(1e-12)
        found += length * direction
        left -= length * product
        scaled = left / diagonal[:, None]
        now = (left * scaled).sum(axis=0)
        direction = scaled + now / before.clip(1e-12) * direction
        before = now
        print(f"round {number + 1}: {float(now.sum()):.4g}", flush=True)
    return found


if __name__ == "__main__":
    main()
