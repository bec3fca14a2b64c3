"""A table of token vectors, trained so that the sum over a text's tokens points where a teacher's
vector of the text does.

    python benchmarks/table/train.py CORPUS.jsonl TEACHER OUT [--seed 7] [--steps 6000] [--device cuda]

CORPUS is what corpus.py writes, TEACHER a folder with a BERT of sentence-transformers (config.json,
model.safetensors, tokenizer.json). OUT gets `table.safetensors` (int8 rows, a float32 scale for
each) and `tokenizer.json`. The same seed on the same device gives the same bytes.

The vocabulary is the teacher's without its unused places, filled up with frequent words of the
corpus. A token begins as the teacher's vector of the token alone, reduced to 256 dimensions and
weighed by how rare the token is. Learned is then that the vector of each passage and query is the
teacher's (regression), that the likeness of a query to the other passages of a batch is the
teacher's (distillation), and that a query is nearest its own passage (contrast). A query is a
passage's title, a sentence or some of its words. A batch is made of blocks of passages of one
package each. At the end rows grow by a power of their length, so that telling words weigh more.
"""

import argparse
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

VOCABULARY, DIMENSIONS, QUERIES = 32_000, 256, 4
TEACHER_TOKENS, STUDENT_TOKENS = 256, 400
_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")


@dataclass(frozen=True)
class Plan:
    """How a table is trained."""

    seed: int = 7
    steps: int = 6000
    batch: int = 4096
    block: int = 64
    rate: float = 2e-3
    regression: float = 1.0
    distillation: float = 1.0
    contrast: float = 1.0
    teacher_temperature: float = 0.05
    temperature: float = 0.05
    rarity: float = 1e-3
    keep: float = 0.1
    words: int = 200_000
    weight: float = 0.6
    clusters: int = 0


class Ids(NamedTuple):
    """Token ids of all texts, one behind the other; text n has those from `edges[n]` to `edges[n +
    1]`.
    """

    ids: np.ndarray
    edges: np.ndarray


@dataclass
class Views:
    """Texts of passages and of QUERIES queries of each, and for each of them the text that the
    teacher reads.
    """

    passages: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    read_passages: list[str] = field(default_factory=list)
    read_queries: list[str] = field(default_factory=list)


_QUESTIONS = (
    *(
        "how do i {}",
        "how to {}",
        "what is {}",
        "why {}",
        "where is {}",
        "{}?",
        "can i {}",
        "tell me about {}",
    ),
    *(
        "explain {}",
        "what does {} mean",
        "when do i need {}",
        "help with {}",
        "how does {} work",
        "{} in short",
    ),
)
"""Questions made of a title."""
_ABOUT = (
    *(
        "summarize what was said about {0}",
        "summarize the discussion of {0}",
        "what was decided about {0}",
    ),
    *(
        "what did {1} say about {0}",
        "what did {1} think about {0}",
        "what was the opinion of {1} on {0}",
    ),
    *(
        "why did {1} mention {0}",
        "why does {1} want {0}",
        "how did {1} react to {0}",
        "who spoke about {0}",
    ),
    *(
        "what happened to {0}",
        "what is the reason for {0}",
        "why is {0} important",
        "who is {1}",
        "where is {0}",
    ),
    *(
        "what did {1} do about {0}",
        "when did {1} talk of {0}",
        "does {1} agree with {0}",
        "who has {0}",
    ),
    *("tell me about {0}", "describe {0}", "give details of {0}", "what are the problems with {0}"),
    *(
        "how many {0}",
        "which {0}",
        "what kind of {0}",
        "what should i do about {0}",
        "is there anything on {0}",
    ),
    *(
        "i want to know about {0}",
        "does anyone know how {0} works",
        "what does it say about {0}",
        "how does {0} {2}",
    ),
    *("why does {0} {2}", "how can i get {0} to {2}", "what is the connection between {0} and {2}"),
    *(
        "{0} and {2}",
        "my {0} has a problem with {2}",
        "i would like {0} with {2}",
        "what made {0} {2}",
    ),
)
"""Questions and requests about {0}, by somebody {1}, in connection with {2}."""
_SOMEBODY = (
    "they",
    "we",
    "the speaker",
    "people",
    "the author",
    "he",
    "she",
    "the group",
    "the team",
    "you",
)


def lone_words(tokens: Sequence[str], count: int, seed: int) -> list[dict[str, str]]:
    """Texts of a few words of the vocabulary each, the frequent ones more often, for words that the
    corpus lacks.
    """
    rng = np.random.default_rng(seed)
    words = [t for t in tokens if len(t) > 2 and t.isascii() and t.isalpha()]
    shares = 1 / (np.arange(len(words)) + 1000.0)
    lengths = rng.integers(2, 13, count)
    drawn = rng.choice(len(words), lengths.sum(), p=shares / shares.sum())
    parts = np.split(drawn, np.cumsum(lengths)[:-1])
    return [
        {"group": "words", "title": "", "text": " ".join(words[n] for n in part)} for part in parts
    ]


def views(rows: Sequence[dict[str, str]], tokens: Sequence[str], seed: int) -> Views:
    """The parameters of each row of the table."""
    _shared.update(
        rows=rows, size=4000, seed=seed, frequent=_frequent(rows), synonyms=_synonyms(rows, tokens)
    )
    with get_context("fork").Pool(os.cpu_count()) as workers:
        parts = workers.map(_views, range(0, len(rows), 4000), chunksize=1)
    return Views(
        *([text for part in parts for text in getattr(part, f.name)] for f in fields(Views))
    )


def _views(start: int) -> Views:
    rng, made = random.Random(_shared["seed"] * 1_000_003 + start), Views()
    for row in _shared["rows"][start : start + _shared["size"]]:
        text, title = row["text"], row["title"].rsplit(" › ", 1)[-1].strip()
        whole = f"{row['title']}\n{text}" if rng.random() < 0.5 else text
        made.passages.append(whole)
        made.read_passages.append(row.get("english", whole))
        if "english" in row:
            own, english = row["english_title"], row["english"]
            pairs = [(title or text, own or english), (text, english)]
            pairs += [
                (query, query)
                for query in (_query(rng, english, own), _question(rng, english, own))
            ]
        else:
            queries = [_query(rng, text, title), _query(rng, text, ""), _question(rng, text, title)]
            pairs = [(query, query) for query in (*queries, _reworded(rng, rng.choice(queries)))]
        made.queries += [query for query, _ in pairs]
        made.read_queries += [read for _, read in pairs]
    return made


def _frequent(rows: Sequence[dict[str, str]]) -> set[str]:
    """Words that say little, the 400 most frequent."""
    counts = Counter(word for row in rows[::50] for word in _WORD.findall(row["text"].lower()))
    return {word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:400]}


def _synonyms(rows: Sequence[dict[str, str]], tokens: Sequence[str]) -> dict[str, list[str]]:
    """WordNet's synonyms in the vocabulary of words that have at most three meanings."""
    known, meanings = set(tokens), {}
    for row in rows:
        if row["group"] == "wordnet-base":
            words = [word for word in row["title"].lower().split(", ") if word in known]
            for word in words:
                meanings.setdefault(word, []).append([other for other in words if other != word])
    found = {
        word: sorted({w for some in of for w in some})
        for word, of in meanings.items()
        if len(of) <= 3
    }
    return {word: others for word, others in found.items() if others and len(word) > 3}


def _reworded(rng: random.Random, query: str) -> str:
    """The query with words replaced by synonyms."""
    synonyms, found = _shared["synonyms"], []
    for word in query.split():
        small = word.lower().strip(".,;:?!\"'()")
        plural = small not in synonyms and small.endswith("s")
        others = synonyms.get(small[:-1] if plural else small)
        other = rng.choice(others) + "s" * plural if others and rng.random() < 0.7 else None
        found.append(other or word)
    return " ".join(found)


def _question(rng: random.Random, text: str, title: str) -> str:
    """A question about some words of a text that stand together."""
    frequent, runs, run = _shared["frequent"], [], []
    for word in [*re.findall(r"[^\W_]+(?:[-'’][^\W_]+)*|[.,;:!?]", text), "."]:
        if word[0].isalpha() and word.lower() not in frequent and len(run) < 4:
            run.append(word)
        elif run:
            runs.append(" ".join(run))
            run = []
    names = [run for run in runs if run.istitle() and len(run) > 3]
    runs = [run for run in dict.fromkeys(runs) if len(run) > 3] or [text[:60]]
    about = (
        title if len(title) > 3 and rng.random() < 0.25 else max(rng.choices(runs, k=2), key=len)
    )
    somebody = rng.choice(names) if names and rng.random() < 0.5 else rng.choice(_SOMEBODY)
    return rng.choice(_ABOUT).format(about.lower(), somebody.lower(), rng.choice(runs).lower())


def _query(rng: random.Random, text: str, title: str) -> str:
    if len(title) > 8 and " " in title and rng.random() < 0.7:
        return rng.choice(_QUESTIONS).format(title.lower()) if rng.random() < 0.3 else title
    kind = rng.random()
    if kind < 0.5:
        sentences = [s for s in _SENTENCE.split(text) if 20 < len(s) < 250]
        if sentences:
            return rng.choice(sentences)
    words = text.split()
    if kind < 0.8:
        count = rng.randint(3, 16) if kind < 0.7 else rng.randint(17, 60)
        start = rng.randint(0, max(0, len(words) - count))
        return " ".join(words[start : start + count])
    telling = [w for w in dict.fromkeys(_WORD.findall(text)) if len(w) > 3] or words
    return " ".join(rng.sample(telling, min(len(telling), rng.randint(2, 6))))


def vocabulary(teacher: Path, rows: Sequence[dict[str, str]]) -> list[str]:
    """VOCABULARY tokens: the teacher's, then words of the corpus that it cuts, by how many packages
    use them how often.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(teacher / "tokenizer.json"))
    known = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    kept = [token for token, _ in known if not token.startswith("[unused")]
    _shared.update(normalizer=tokenizer.normalizer, rows=rows, size=4000)
    counts: dict[str, Counter[str]] = {}
    with get_context("fork").Pool(os.cpu_count()) as workers:
        for part in workers.imap(_words, range(0, len(rows), 4000)):
            for group, found in part.items():
                counts.setdefault(group, Counter()).update(found)
    total: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    for found in counts.values():
        for word, count in found.items():
            if count >= 3:
                total[word] += count**0.5
                groups[word] += 1
    has = set(kept)
    new = [
        w for w in sorted(total, key=lambda w: (-total[w], w)) if w not in has and groups[w] >= 2
    ]
    return kept + new[: VOCABULARY - len(kept)]


def _words(start: int) -> dict[str, Counter[str]]:
    """By package in how many passages a word is."""
    counts: dict[str, Counter[str]] = {}
    for row in _shared["rows"][start : start + _shared["size"]]:
        words = re.findall(r"[a-zäöüß]{3,20}", _shared["normalizer"].normalize_str(row["text"]))
        counts.setdefault(row["group"], Counter()).update(set(words))
    return counts


def tokenizer_of(tokens: Sequence[str]) -> Any:
    """WordPiece over `tokens`, in lower case and without accents, as the teacher's."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    made = Tokenizer(
        models.WordPiece(
            {t: n for n, t in enumerate(tokens)}, unk_token="[UNK]", max_input_chars_per_word=100
        )
    )
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


_shared: dict[str, Any] = {}


def encoded(tokenizer: Any, texts: Sequence[str], most: int, special: bool) -> Ids:
    """The ids of all texts, by one process a core."""
    size = 4000
    _shared.update(tokenizer=tokenizer, texts=texts, most=most, special=special, size=size)
    with get_context("fork").Pool(os.cpu_count()) as workers:
        parts = workers.map(_encoded, range(0, len(texts), size), chunksize=1)
    counts = np.concatenate([c for _, c in parts])
    return Ids(np.concatenate([i for i, _ in parts]), np.concatenate([[0], np.cumsum(counts)]))


def _encoded(start: int) -> tuple[np.ndarray, np.ndarray]:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    most, special = _shared["most"], _shared["special"]
    some = _shared["texts"][start : start + _shared["size"]]
    lists = [
        e.ids for e in _shared["tokenizer"].encode_batch_fast(list(some), add_special_tokens=False)
    ]
    if special:
        lists = [[101, *ids[: most - 2], 102] for ids in lists]
    lists = [ids[:most] or [0] for ids in lists]
    return np.array([i for ids in lists for i in ids], dtype=np.int32), np.array(
        [len(ids) for ids in lists]
    )


def teacher_vectors(teacher: Path, ids: Ids, device: str) -> Any:
    """Unit vectors of the teacher, float16 of shape (texts, width)."""
    import torch
    from transformers import BertModel

    model = BertModel.from_pretrained(
        teacher, dtype=torch.float16 if device == "cuda" else torch.float32, add_pooling_layer=False
    )
    model = model.to(device).eval()
    counts = np.diff(ids.edges)
    order = np.argsort(-counts, kind="stable")
    flat = torch.from_numpy(ids.ids.astype(np.int64)).to(device)
    out = torch.empty((len(counts), model.config.hidden_size), dtype=torch.float16, device=device)
    place = 0
    with torch.inference_mode():
        while place < len(order):
            longest = int(counts[order[place]])
            some = order[place : place + max(1, (131_072 if device == "cuda" else 8192) // longest)]
            place += len(some)
            starts = torch.from_numpy(ids.edges[some]).to(device)
            lengths = torch.from_numpy(counts[some]).to(device)
            columns = torch.arange(longest, device=device)
            mask = columns < lengths[:, None]
            tokens = flat[torch.where(mask, starts[:, None] + columns, 0)] * mask
            hidden = model(input_ids=tokens, attention_mask=mask.long()).last_hidden_state.float()
            mean = (hidden * mask[:, :, None]).sum(1) / lengths[:, None]
            out[torch.from_numpy(some).to(device)] = torch.nn.functional.normalize(
                mean, dim=1
            ).half()
    return out


class Bags:
    """Texts as bags of tokens on the device."""

    def __init__(self, ids: Ids, device: str):
        import torch

        self.flat = torch.from_numpy(ids.ids).to(device)
        self.edges = torch.from_numpy(ids.edges).to(device)

    def sums(self, table: Any, rows: Any) -> Any:
        """Unit vectors of the texts numbered `rows`."""
        import torch

        starts, counts = self.edges[rows], self.edges[rows + 1] - self.edges[rows]
        ends = counts.cumsum(0)
        offsets = ends - counts
        place = torch.arange(int(ends[-1]), device=rows.device)
        ids = self.flat[place + (starts - offsets).repeat_interleave(counts)]
        found = torch.nn.functional.embedding_bag(ids.long(), table, offsets, mode="sum")
        return torch.nn.functional.normalize(found, dim=1)


@dataclass
class Lesson:
    """All that training reads, on the device."""

    passages: Bags
    queries: Bags
    passage_vectors: Any
    query_vectors: Any
    projection: Any
    beginning: Any
    groups: np.ndarray


def projected(vectors: Any, projection: Any) -> Any:
    """Vectors of the teacher in the dimensions of the table, of unit length."""
    import torch

    return torch.nn.functional.normalize(vectors.float() @ projection, dim=1)


def projection_of(vectors: Any) -> Any:
    """The main directions of vectors, not centred, so that products are kept."""
    import torch

    square = torch.zeros((vectors.shape[1],) * 2, dtype=torch.float64, device=vectors.device)
    for start in range(0, len(vectors), 65_536):
        part = vectors[start : start + 65_536].double()
        square += part.T @ part
    return torch.linalg.eigh(square).eigenvectors[:, -DIMENSIONS:].flip(1).float()


def batches(groups: np.ndarray, plan: Plan) -> Iterator[np.ndarray]:
    """Numbers of passages, endlessly: blocks of one group each, mixed; every passage once a round."""
    rng = np.random.default_rng(plan.seed)
    while True:
        order = rng.permutation(len(groups))
        order = order[np.argsort(groups[order], kind="stable")]
        blocks = np.array_split(order, max(1, len(order) // plan.block))
        rng.shuffle(blocks)
        whole = np.concatenate(blocks)
        for start in range(0, len(whole) - plan.batch + 1, plan.batch):
            yield whole[start : start + plan.batch]


def clusters(vectors: Any, count: int, seed: int) -> np.ndarray:
    """Of each vector the number of the nearest of `count` centres, after four rounds of k-means."""
    import torch

    drawn = torch.from_numpy(np.random.default_rng(seed).choice(len(vectors), count, replace=False))
    centres = vectors[drawn.to(vectors.device)].float()
    for _ in range(5):
        nearest = torch.cat(
            [(part.float() @ centres.T).argmax(1) for part in vectors.split(16_384)]
        )
        order = nearest.argsort(stable=True)
        counts = nearest.bincount(minlength=count)
        edges = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        sums = torch.segment_reduce(vectors[order].float(), "sum", offsets=edges, axis=0)
        centres = torch.where(
            counts[:, None] > 0, torch.nn.functional.normalize(sums, dim=1), centres
        )
    return nearest.cpu().numpy()


def trained(
    lesson: Lesson, plan: Plan, device: str, told: Callable[[int, Any], None] | None = None
) -> Any:
    """The table after `plan.steps` steps of Adam, float32 of shape (tokens, dimensions)."""
    import torch
    from torch.nn import functional

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(plan.seed)
    table = lesson.beginning.clone().requires_grad_()
    adam = torch.optim.Adam([table], lr=plan.rate, betas=(0.9, 0.98))
    warm = min(200, plan.steps // 10 + 1)
    line = torch.optim.lr_scheduler.LambdaLR(
        adam,
        lambda n: min(1.0, (n + 1) / warm) * max(0.02, 0.5 * (1 + np.cos(np.pi * n / plan.steps))),
    )
    groups = (
        clusters(lesson.passage_vectors, plan.clusters, plan.seed)
        if plan.clusters
        else lesson.groups
    )
    every = batches(groups, plan)
    for step in range(plan.steps):
        rows = torch.from_numpy(next(every)).to(device)
        asked = rows * QUERIES + torch.randint(0, QUERIES, (len(rows),), device=device)
        passages, queries = lesson.passages.sums(table, rows), lesson.queries.sums(table, asked)
        of_passages, of_queries = lesson.passage_vectors[rows], lesson.query_vectors[asked]
        loss = plan.regression * (
            2
            - (passages * projected(of_passages, lesson.projection)).sum(1).mean()
            - (queries * projected(of_queries, lesson.projection)).sum(1).mean()
        )
        likeness = queries @ passages.T / plan.temperature
        if plan.distillation:
            with torch.no_grad():
                right = (
                    of_queries.float() @ of_passages.float().T / plan.teacher_temperature
                ).softmax(1)
            loss = loss + plan.distillation * functional.kl_div(
                likeness.log_softmax(1), right, reduction="batchmean"
            )
        if plan.contrast:
            own = torch.arange(len(rows), device=device)
            loss = loss + plan.contrast * functional.cross_entropy(likeness, own)
        if plan.keep:
            loss = loss + plan.keep * (table - lesson.beginning).square().sum(1).mean()
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()
        line.step()
        if told and (step % 500 == 0 or step == plan.steps - 1):
            told(step, loss.item())
    return table.detach()


def quantised(table: np.ndarray, weight: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows as int8, and the scale of each, float32; rows grow by their length to the power
    `weight`.
    """
    scale = np.maximum(np.abs(table).max(axis=1), 1e-8).astype(np.float32) / 127
    rows = np.round(table / scale[:, None]).astype(np.int8)
    lengths = np.linalg.norm(rows.astype(np.float32) * scale[:, None], axis=1)
    return rows, (scale * lengths**weight).astype(np.float32)


def save(folder: Path, table: np.ndarray, tokenizer: Any, weight: float) -> None:
    """Write the table and its tokenizer."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    rows, scale = quantised(table, weight)
    save_file({"rows": rows, "scale": scale}, folder / "table.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)


def prepared(corpus: Path, teacher: Path, seed: int, device: str, plan: Plan) -> tuple[Lesson, Any]:
    """The data of the training, and the tokenizer of the table."""
    import torch
    from tokenizers import Tokenizer

    rows = [json.loads(line) for line in corpus.open()]
    tokens = vocabulary(teacher, rows)
    rows += lone_words(tokens, plan.words, seed)
    made = views(rows, tokens, seed)
    own, of_teacher = tokenizer_of(tokens), Tokenizer.from_file(str(teacher / "tokenizer.json"))
    of_teacher.no_padding()
    of_teacher.no_truncation()
    bags = [encoded(own, texts, STUDENT_TOKENS, False) for texts in (made.passages, made.queries)]
    read = [
        encoded(of_teacher, texts, TEACHER_TOKENS, True)
        for texts in (made.read_passages, made.read_queries, [t.removeprefix("##") for t in tokens])
    ]
    single = [
        [101, of_teacher.token_to_id(t), 102] if of_teacher.token_to_id(t) is not None else None
        for t in tokens
    ]
    alone = [
        ids or list(read[2].ids[read[2].edges[n] : read[2].edges[n + 1]])
        for n, ids in enumerate(single)
    ]
    read[2] = Ids(
        np.array([i for a in alone for i in a], np.int32), np.cumsum([0, *map(len, alone)])
    )
    passages, queries, words = (teacher_vectors(teacher, ids, device) for ids in read)
    projection = projection_of(passages)
    frequency = np.bincount(bags[0].ids, minlength=len(tokens)) / len(bags[0].ids)
    weights = torch.from_numpy(plan.rarity / (plan.rarity + frequency)).float().to(device)
    beginning = projected(words, projection) * weights[:, None]
    groups = np.unique([row["group"] for row in rows], return_inverse=True)[1]
    return Lesson(
        *(Bags(b, device) for b in bags), passages, queries, projection, beginning, groups
    ), own


def main() -> None:
    """Train and write one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("corpus", "teacher", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--steps", type=int, default=Plan.steps)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    plan = Plan(seed=given.seed, steps=given.steps)
    lesson, tokenizer = prepared(given.corpus, given.teacher, plan.seed, given.device, plan)
    table = trained(
        lesson, plan, given.device, lambda step, loss: print(step, round(loss, 4), flush=True)
    )
    save(given.out, table.cpu().numpy(), tokenizer, plan.weight)


if __name__ == "__main__":
    main()
