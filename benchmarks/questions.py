"""Questions as people ask them: who, when, which version, how many, latest, first, what was decided.

    python benchmarks/questions.py [--corpus NAME ...] [--state FOLDER] [--half tuned|aside] [--wrong] [--dialogues]

Questions and their right answers are read off the tables of each index: a template is filled with a
person, a month or a version of the archive, and right are all mails, pages or turns of which the
tables say the same (author, day, version, trailer, words of the subject). `questions.yaml` has more
that people wrote, with conditions on the same facts. Half of them, by the hash of their text, are
aside: nothing is chosen on those. Printed is for each corpus the share of questions with a right
first hit, the share that is wrong and labelled PASS, MRR@10, and the first hits of bm25s over whole
texts without quotes and with the author's name; with --wrong each question with a wrong first hit.
With --dialogues it asks the questions of `dialogues.yaml`, which lean on turns before them: as they
stand, and by the rules of `queries.rewrite`.
"""

import calendar
import hashlib
import json
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import bm25s
import mail_collections
import Stemmer
import yaml
from conversations import locomo, turn_ids
from printing import new_parser, new_table
from rich.console import Console
from tasks import SAMPLE, built

from dagster_project.index.search.search_index import SearchIndex
from transforms.retrieval import query_rewriting
from transforms.retrieval.search_filters import Filters

CORPORA = ("raid", "erofs", "pgsql", "peps", "locomo", "sample")
WRITTEN = Path(__file__).with_name("questions.yaml")
DIALOGUES = Path(__file__).with_name("dialogues.yaml")
LIMIT = 10
_WORD = re.compile(r"[^\W_][\w.+-]*[^\W_]|[^\W_]")
_COMMON = frozenset(
    re.split(
        r"\s+",
        "a an and are as at be but by can do does for from has have how i if in into is it its my new no not of on "
        "or our re so some than that the their them then there this to use using vs was we what when which who why "
        "with you your patch add fix via up out also only more please help",
    )
)
_VERDICT = re.compile(r"\b(?:applied|queued|merged|pushed|picked up)\b", re.IGNORECASE)
_TITLE = re.compile(r"^(?:\s*\[[^\]]*\])+|^\s*(?:re|aw|fwd?):", re.IGNORECASE)
_MONTHS = calendar.month_name


class Item(NamedTuple):
    """A mail, page or turn with the facts that answers are read off."""

    id: str
    author: str
    day: date
    title: str
    own: str
    source: str = ""
    thread: str = ""
    parent: str = ""
    is_reply: bool = False
    version: int = 0
    is_cover: bool = False
    parts: int = 0
    reviewers: tuple[str, ...] = ()


class Question(NamedTuple):
    """A question, its kind, and the items that are right as first hit."""

    text: str
    kind: str
    right: frozenset[str]
    source: str = ""
    turns: tuple[str, ...] = ()


@dataclass
class Archive:
    """Items with what is asked of them."""

    name: str
    index: SearchIndex
    items: Sequence[Item]
    item_of: Mapping[int, str] = field(repr=False)
    questions: list[Question] = field(default_factory=list)

    @cached_property
    def by_id(self) -> dict[str, Item]:
        """The items by their ids."""
        return {item.id: item for item in self.items}

    @cached_property
    def words(self) -> dict[str, set[int]]:
        """By word the numbers of the items with it in their title."""
        return _postings(item.title for item in self.items)

    @cached_property
    def own_words(self) -> dict[str, set[int]]:
        """By word the numbers of the items with it in their title or own text."""
        return _postings(f"{item.title} {item.own}" for item in self.items)

    @cached_property
    def names(self) -> dict[str, set[str]]:
        """By first and by last name the authors who have it."""
        found: dict[str, set[str]] = defaultdict(set)
        for name in {item.author for item in self.items}:
            for word in {*name.lower().split()[:1], *name.lower().split()[-1:]}:
                found[word].add(name)
        return found

    def about(self, topic: Iterable[str]) -> list[Item]:
        """The items with all words of a topic in their title, oldest first."""
        return self._of(self.words, topic)

    def saying(self, topic: Iterable[str]) -> list[Item]:
        """The items with all words of a topic in their title or own text."""
        return self._of(self.own_words, topic)

    def _of(self, words: Mapping[str, set[int]], topic: Iterable[str]) -> list[Item]:
        numbers = set.intersection(*(words.get(word.lower(), set()) for word in topic))
        return sorted((self.items[n] for n in numbers), key=lambda item: (item.day, item.id))

    def topic(self, title: str, most: int = 4) -> list[str]:
        """The rarest words of a title, in its order."""
        words = [word for word in tokens(_bare(title)) if word not in _COMMON]
        rare = sorted(dict.fromkeys(words), key=lambda w: len(self.words.get(w, ())))[:most]
        return [word for word in dict.fromkeys(words) if word in rare]

    def called(self, name: str, seed: str) -> str:
        """A person as somebody would type it: the whole name, in small letters, or one name that
        nobody else has.
        """
        first, last = name.split()[0], name.split()[-1]
        ways = [name, name, name.lower()]
        ways += [
            one
            for one in (first, last)
            if one.isalpha() and len(one) > 2 and len(self.names[one.lower()]) == 1
        ]
        return _pick(ways, seed)


def tokens(text: str) -> list[str]:
    """The words of a text in small letters."""
    return [word.lower() for word in _WORD.findall(text)]


def _postings(texts: Iterable[str]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for number, text in enumerate(texts):
        for word in set(tokens(text)):
            found[word].add(number)
    return found


def _bare(title: str) -> str:
    """A title without tags and signs of a reply."""
    while (shorter := _TITLE.sub("", title).strip()) != title:
        title = shorter
    return title


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _pick(ways: Sequence[str], seed: str) -> str:
    return ways[_hash(seed) % len(ways)]


def _ids(items: Iterable[Item]) -> frozenset[str]:
    return frozenset(item.id for item in items)


Maker = Callable[[Archive, Item], Question | None]
"""Makes a question of a kind from an item; None if it does not serve."""


def drawn(archive: Archive, items: Iterable[Item], kind: str, make: Maker, count: int) -> None:
    """Add the first `count` questions that a maker gives, the items in the order of their hashes."""
    asked = {question.text for question in archive.questions}
    topics: Counter[str] = Counter()
    for item in sorted(items, key=lambda item: _hash(f"{kind} {item.id}")):
        if count == 0:
            return
        question = make(archive, item)
        if question is None or not question.right or question.text in asked:
            continue
        if topics[item.thread] or topics[item.author] > 2:
            continue
        topics.update([item.thread or item.id, item.author])
        asked.add(question.text)
        archive.questions.append(question._replace(kind=kind, source=item.source))
        count -= 1


def _said(archive: Archive, item: Item) -> Question | None:
    topic, own = archive.topic(item.title), len(item.own)
    if not item.is_reply or own < 150 or len(topic) < 2 or len(item.author.split()) < 2:
        return None
    name, words = archive.called(item.author, item.id), " ".join(topic)
    template = _pick(
        ("what does {} think of {}", "what did {} say about {}", "{} on {}", "{} {}"), item.id + "t"
    )
    right = [one for one in archive.saying(topic) if one.author == item.author]
    return Question(template.format(name, words), "", _ids(right))


def _answered(archive: Archive, item: Item) -> Question | None:
    parent, topic = archive.by_id.get(item.parent), archive.topic(item.title)
    if parent is None or parent.author == item.author or len(topic) < 2 or len(item.own) < 80:
        return None
    if len(item.author.split()) < 2 or len(parent.author.split()) < 2:
        return None
    names = archive.called(item.author, item.id), archive.called(parent.author, item.id + "q")
    template = _pick(
        ("did {} answer {} about {}", "what did {} reply to {} on {}", "did {} reply to {}'s {}"),
        item.id,
    )
    right = [
        one
        for one in archive.about(topic)
        if one.author == item.author
        and one.parent in archive.by_id
        and archive.by_id[one.parent].author == parent.author
    ]
    return Question(template.format(*names, " ".join(topic)), "", _ids(right))


def _began(archive: Archive, item: Item) -> Question | None:
    topic = archive.topic(item.title)
    replies = [one for one in archive.about(topic or ["?"]) if one.is_reply]
    if item.is_reply or item.version or len(topic) < 2 or not replies:
        return None
    template = _pick(
        ("who reported {}", "who asked about {}", "who first brought up {}", "first mail about {}"),
        item.id,
    )
    about = [one for one in archive.about(topic) if not one.is_reply]
    return Question(
        template.format(" ".join(topic)), "", _ids(about[:1] if "first" in template else about)
    )


def _recurring(archive: Archive, item: Item, most: int = 2) -> tuple[list[str], list[Item]]:
    """The words of a title that comes in at least three months, and all items with them."""
    topic = archive.topic(item.title, most)
    about = archive.about(topic) if len(topic) == most else []
    months = {(one.day.year, one.day.month) for one in about}
    return (topic, about) if len(months) >= 3 and len(about) < 300 else ([], [])


def _month(archive: Archive, item: Item) -> Question | None:
    topic, about = _recurring(archive, item, 3)
    template = _pick(("{} {} {}", "{} in {} {}"), item.id)
    right = [one for one in about if (one.day.year, one.day.month) == _year_month(item)]
    when = _MONTHS[item.day.month], item.day.year
    return Question(template.format(" ".join(topic), *when), "", _ids(right)) if topic else None


def _year_month(item: Item) -> tuple[int, int]:
    return item.day.year, item.day.month


def _year(archive: Archive, item: Item) -> Question | None:
    topic, about = _recurring(archive, item)
    years = {one.day.year for one in about}
    if len(years) < 2:
        return None
    way = _pick(("{} in {}", "{} {}", "{} since {}", "{} before {}"), item.id)
    meets = {
        "since": lambda day: day.year >= item.day.year,
        "before": lambda day: day.year < item.day.year,
    }.get(way.split()[1], lambda day: day.year == item.day.year)
    right = [one for one in about if meets(one.day)]
    return Question(way.format(" ".join(topic), item.day.year), "", _ids(right))


def _person_then(archive: Archive, item: Item) -> Question | None:
    topic = archive.topic(item.title, 2)
    if len(topic) < 2 or len(item.author.split()) < 2:
        return None
    name, month = archive.called(item.author, item.id), _MONTHS[item.day.month]
    way = _pick(
        ("what did {} write about {} in {} {}", "{}'s mail on {} from {} {}"), item.id + "way"
    )
    right = [
        one
        for one in archive.saying(topic)
        if one.author == item.author and _year_month(one) == _year_month(item)
    ]
    return Question(way.format(name, " ".join(topic), month, item.day.year), "", _ids(right))


def _postings_of(archive: Archive, item: Item) -> tuple[str, list[Item]]:
    """The bare title of a patch or cover, and all its postings."""
    title = _bare(item.title)
    same = [
        one
        for one in archive.about(tokens(title) or ["?"])
        if one.version and not one.is_reply and _bare(one.title).lower() == title.lower()
    ]
    return title, same


def _latest_version(archive: Archive, item: Item) -> Question | None:
    title, same = _postings_of(archive, item)
    newest = max((one.version for one in same), default=0)
    if item.is_reply or not item.version or newest < 2 or len(tokens(title)) < 3:
        return None
    way = _pick(
        (
            "latest version of {}",
            "newest posting of {}",
            "current version of {}",
            "most recent revision of {}",
        ),
        item.id,
    )
    last = max(one.day for one in same)
    right = [one for one in same if one.version == newest and (last - one.day).days < 300]
    return Question(way.format(title), "", _ids(right))


def _this_version(archive: Archive, item: Item) -> Question | None:
    title, same = _postings_of(archive, item)
    if item.is_reply or len({one.version for one in same}) < 2 or len(tokens(title)) < 3:
        return None
    way = _pick(("v{1} of {0}", "version {1} of {0}", "{0} v{1}"), item.id)
    right = [one for one in same if one.version == item.version]
    return Question(way.format(title, item.version), "", _ids(right))


def _newest(archive: Archive, item: Item) -> Question | None:
    topic, about = _recurring(archive, item)
    way = _pick(
        ("newest mail about {}", "latest on {}", "most recent message on {}", "last mail about {}"),
        item.id,
    )
    return Question(way.format(" ".join(topic)), "", _ids(about[-3:])) if topic else None


def _oldest(archive: Archive, item: Item) -> Question | None:
    topic, about = _recurring(archive, item)
    way = _pick(("first time {} came up", "oldest mail about {}", "earliest {}"), item.id)
    return Question(way.format(" ".join(topic)), "", _ids(about[:3])) if topic else None


def _last_of_person(archive: Archive, item: Item) -> Question | None:
    topic = archive.topic(item.title, 2)
    theirs = [one for one in archive.about(topic or ["?"]) if one.author == item.author]
    if len({_year_month(one) for one in theirs}) < 3 or len(item.author.split()) < 2:
        return None
    way = _pick(("last mail from {} about {}", "latest {} {}", "newest from {} on {}"), item.id)
    name = archive.called(item.author, item.id)
    return Question(way.format(name, " ".join(topic)), "", _ids(theirs[-2:]))


def _reviewed(archive: Archive, item: Item) -> Question | None:
    if not item.is_reply or item.author not in item.reviewers or len(item.author.split()) < 2:
        return None
    topic = archive.topic(item.title)
    way = _pick(
        ("did {} review {}", "who reviewed {1}", "{}'s review of {}", "who acked {1}"), item.id
    )
    about = [one for one in archive.about(topic or ["?"]) if one.is_reply]
    right = [one for one in about if one.author in one.reviewers]
    if "who" not in way:
        right = [one for one in about if one.author == item.author]
    text = way.format(archive.called(item.author, item.id), " ".join(topic))
    return Question(text, "", _ids(right)) if len(topic) > 1 else None


def _applied(archive: Archive, item: Item) -> Question | None:
    topic = archive.topic(item.title)
    if not item.is_reply or not _VERDICT.search(item.own[:600]) or len(topic) < 2:
        return None
    way = _pick(("was {} applied", "did {1} apply {0}", "was {} merged", "who applied {}"), item.id)
    right = [
        one for one in archive.about(topic) if one.is_reply and _VERDICT.search(one.own[:2000])
    ]
    name = archive.called(item.author, item.id) if item.author.strip() else "anybody"
    if "{1}" in way:
        right = [one for one in right if one.author == item.author]
    return Question(way.format(" ".join(topic), name), "", _ids(right))


def _how_many(archive: Archive, item: Item) -> Question | None:
    title, same = _postings_of(archive, item)
    if not item.is_cover or item.is_reply or item.parts < 2 or len(tokens(title)) < 3:
        return None
    way = _pick(("how many patches are in {}", "how many parts does {} have"), item.id)
    return Question(way.format(title), "", _ids(same))


MAIL: Mapping[str, tuple[Maker, int]] = {
    "said": (_said, 20),
    "answered": (_answered, 10),
    "began": (_began, 8),
    "month": (_month, 8),
    "year": (_year, 8),
    "person and time": (_person_then, 8),
    "latest version": (_latest_version, 10),
    "this version": (_this_version, 5),
    "newest": (_newest, 5),
    "oldest": (_oldest, 4),
    "last of a person": (_last_of_person, 5),
    "reviewed": (_reviewed, 6),
    "applied": (_applied, 6),
    "how many": (_how_many, 3),
}


def _wrote_page(archive: Archive, item: Item) -> Question | None:
    topic, author = archive.topic(item.title, 2), item.author.split(", ")[0]
    way = _pick(("which PEP did {} write about {}", "{}'s PEP on {}", "{} {} PEP"), item.id)
    right = [one for one in archive.saying(topic or ["?"]) if author in one.author]
    return Question(way.format(author, " ".join(topic)), "", _ids(right)) if topic else None


def _page_facts(archive: Archive, item: Item) -> Question | None:
    topic = " ".join(archive.topic(item.title, 4))
    way = _pick(
        (
            "who wrote the PEP about {}",
            "when was the PEP on {} created",
            "was the PEP about {} accepted",
            "what is the status of the PEP on {}",
            "what was decided about {}",
            "was {} rejected",
        ),
        item.id,
    )
    right = archive.about(topic.split() or ["?"])
    return Question(way.format(topic), "", _ids(right)) if topic else None


def _page_then(archive: Archive, item: Item) -> Question | None:
    topic = min(archive.topic(item.title, 2), key=len, default="")
    about = archive.saying([topic]) if topic else []
    way = _pick(("PEP about {} from {}", "{} proposal {}", "PEP on {} created in {}"), item.id)
    right = [one for one in about if one.day.year == item.day.year]
    return Question(way.format(topic, item.day.year), "", _ids(right)) if topic else None


def _page_last(archive: Archive, item: Item) -> Question | None:
    author = item.author.split(", ")[0]
    theirs = [one for one in archive.items if author in one.author]
    theirs.sort(key=lambda one: one.day)
    way = _pick(("latest PEP by {}", "first PEP by {}", "newest PEP of {}"), item.id)
    right = theirs[:2] if "first" in way else theirs[-2:]
    return Question(way.format(author), "", _ids(right)) if len(theirs) > 2 else None


PAGES: Mapping[str, tuple[Maker, int]] = {
    "author": (_wrote_page, 35),
    "facts": (_page_facts, 35),
    "year": (_page_then, 15),
    "last of a person": (_page_last, 10),
}


def _turn_then(archive: Archive, item: Item) -> Question | None:
    said = archive.topic(item.own, 2)
    way = _pick(("what did {} say about {} in {} {}", "{}, {}, {} {}"), item.id)
    right = [
        one
        for one in archive.saying(said or ["?"])
        if one.author == item.author
        and one.source == item.source
        and _year_month(one) == _year_month(item)
    ]
    when = _MONTHS[item.day.month], item.day.year
    text = way.format(item.author, " and ".join(said), *when)
    return Question(text, "", _ids(right)) if len(said) == 2 and len(item.own) > 60 else None


def _turn_order(archive: Archive, item: Item) -> Question | None:
    said = archive.topic(item.own, 1)
    theirs = [
        one
        for one in archive.saying(said or ["?"])
        if one.author == item.author and one.source == item.source
    ]
    if len({_year_month(one) for one in theirs}) < 3:
        return None
    way = _pick(("the last time {} mentioned {}", "when did {} first mention {}"), item.id)
    theirs.sort(key=lambda one: (one.day, int(one.id.rpartition(":")[2])))
    ends = theirs[:2] if "first" in way else theirs[-2:]
    return Question(way.format(item.author, *said), "", _ids(ends))


TURNS: Mapping[str, tuple[Maker, int]] = {
    "person and time": (_turn_then, 20),
    "order": (_turn_order, 10),
}


def archive_of(name: str, state: Path) -> Archive:
    """One of CORPORA, its index built below `state`, with its questions."""
    folder = mail_collections.corpora_folder()
    if name == "locomo":
        return _chats(folder, state / name)
    if name == "sample":
        config = state / name / "weft.toml"
        if not config.exists():
            shutil.copytree(SAMPLE, config.parent, ignore=shutil.ignore_patterns("state"))
    else:
        config = state / name / "weft.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        if not config.exists():
            config.write_text('[storage]\nroot = "state"\n\n' + _sources(folder)[name])
    index = built(config, {})
    items = _pages(index) if name == "peps" else _mails(index)
    item_of = index.connection.execute("SELECT chunk_no, doc_id FROM chunks").fetchall()
    if name == "sample":
        items = [*items, *_pages(index)]
    archive = Archive(name, index, items, dict(item_of))
    for kind, (make, count) in (PAGES if name == "peps" else MAIL).items():
        pool = items if name == "peps" else _answered_mails(items)
        drawn(archive, pool, kind, make, count // 2 if name == "sample" else count)
    archive.questions += written(archive)
    return archive


def _answered_mails(items: Sequence[Item]) -> list[Item]:
    """Patches, and mails of threads of several people: spam is not asked about."""
    people: dict[str, set[str]] = defaultdict(set)
    for item in items:
        people[item.thread].add(item.author)
    return [one for one in items if one.thread and (one.version or len(people[one.thread]) > 1)]


def _sources(folder: Path) -> dict[str, str]:
    mbox = '[[sources]]\nname = "{0}"\nkind = "mbox"\npath = "{1}"\ngrain = "year"\n'
    return {
        **{n: mbox.format(n, f"{folder}/linux-{n}/linux-{n}.*.gz") for n in ("raid", "erofs")},
        "pgsql": f'[[sources]]\nname = "pgsql"\nkind = "mbox"\npath = "{folder}/pgsql/pgsql-*"\ngrain = "year"\n',
        "peps": f'[[sources]]\nname = "peps"\nkind = "tree"\npath = "{folder}/peps"\n',
    }


_MAILS = """
WITH own AS (
  SELECT doc_id AS message_id, string_agg(text_lex, chr(10) ORDER BY chunk_index) AS own FROM chunks
  WHERE source_kind = 'message' GROUP BY ALL
), reviewed AS (
  SELECT message_id, list(DISTINCT p.name) AS reviewers FROM trailers t JOIN people p ON p.addr = t.addr
  WHERE t.kind IN ('reviewed-by', 'acked-by', 'tested-by') GROUP BY ALL
)
SELECT m.message_id, coalesce(p.name, m.from_name, ''), m.effective_at::DATE, m.subject, coalesce(own, ''),
  coalesce(t.thread_id, m.message_id), coalesce(t.parent_id, ''),
  m.subject ILIKE 're:%' OR coalesce(s.is_reply, false), coalesce(s.version, 0), coalesce(s.is_cover, false),
  coalesce(s.parts, 0), coalesce(reviewers, [])
FROM messages m LEFT JOIN people p ON p.addr = m.from_addr LEFT JOIN own USING (message_id)
LEFT JOIN thread_tree t USING (message_id) LEFT JOIN patch_series s USING (message_id)
LEFT JOIN reviewed USING (message_id)
WHERE m.effective_at IS NOT NULL ORDER BY message_id
"""


def _mails(index: SearchIndex) -> list[Item]:
    """The mails of an archive."""
    found = []
    rows = index.connection.execute(_MAILS).fetchall()
    for mail, author, day, subject, own, thread, parent, reply, version, cover, parts, by in rows:
        item = Item(mail, author, day, subject, own, "", thread, parent, reply)
        found.append(
            item._replace(version=version, is_cover=cover, parts=parts, reviewers=tuple(by))
        )
    return found


def _pages(index: SearchIndex) -> list[Item]:
    found = []
    for doc, title, text, created, fields in index.connection.execute(
        "SELECT doc_id, title, text, coalesce(created_at, modified_at)::DATE, frontmatter FROM documents ORDER BY doc_id"
    ).fetchall():
        facts = json.loads(fields or "{}") if (fields or "").startswith("{") else {}
        author = re.search(r"(?ms)^Author:(.*?)^\S", text[:2000])
        made = re.search(r"(?m)^Created:\s*(\d+)-(\w+)-(\d{4})", text[:2000])
        day = created or date(1970, 1, 1)
        if made:
            month = [*calendar.month_abbr].index(made[2][:3])
            day = date(int(made[3]), month, int(made[1]))
        names = re.sub(r"<[^>]*>|\s+", " ", author[1]) if author else str(facts.get("author") or "")
        names = ", ".join(" ".join(name.split()) for name in names.split(",") if name.strip())
        found.append(Item(doc, names, day, re.sub(r"^PEP \d+ \S+ ", "", title), text))
    return found


def _chats(folder: Path, state: Path) -> Archive:
    """Every so manieth question of the chats of LoCoMo, and questions by speaker and month."""
    config, samples, told = locomo(folder, state)
    index = built(config, {})
    items, item_of, asked = [], {}, []
    for sample in samples:
        name = sample["sample_id"]
        item_of |= {c: f"{name} {t}" for c, t in turn_ids(index, name, told[name]).items()}
        for turn, at, author, text in told[name]:
            day = date.fromisoformat(at[:10])
            items.append(Item(f"{name} {turn}", author, day, text, text, name))
        for question in sample["qa"]:
            if question["evidence"] and question["category"] in (1, 2, 4):
                right = frozenset(f"{name} {turn}" for turn in question["evidence"])
                kind = {1: "several", 2: "when", 4: "one"}[question["category"]]
                asked.append(Question(question["question"], kind, right, name))
    asked.sort(key=lambda question: _hash(question.text))
    archive = Archive("locomo", index, items, item_of, asked[:70])
    for kind, (make, count) in TURNS.items():
        drawn(archive, items, kind, make, count)
    return archive


def written(archive: Archive, file: Path = WRITTEN) -> list[Question]:
    """The questions of a file for an archive; ValueError if some have no answer in it."""
    entries = yaml.safe_load(file.read_text()).get(archive.name, [])
    right = [
        _chunks_with(archive, entry) if "chat" in entry else _ids(_meeting(archive, entry))
        for entry in entries
    ]
    if without := [e["ask"] for e, ids in zip(entries, right, strict=True) if not ids]:
        raise ValueError(f"{file.name}: without an answer in {archive.name}: {without}")
    return [
        Question(e["ask"], "written", ids, turns=tuple(e.get("turns", ())))
        for e, ids in zip(entries, right, strict=True)
    ]


def dialogues(archive: Archive) -> list[Question]:
    """The dialogues of an archive; of LoCoMo a question when something was, of which the turn before
    says what.
    """
    made = [
        question._replace(text="when?", turns=(f"Did {question.text.removeprefix('When did ')}",))
        for question in archive.questions
        if question.kind == "when" and question.text.startswith("When did ")
    ]
    return [*written(archive, DIALOGUES), *made]


def _meeting(archive: Archive, entry: Mapping[str, Any]) -> list[Item]:
    """The items that meet all conditions of a written question."""
    words = tokens(str(entry.get("subject", "")))
    items = archive.about(words) if words else sorted(archive.items, key=lambda one: one.day)
    for name, test in _CONDITIONS.items():
        if name in entry:
            items = [one for one in items if test(one, str(entry[name]))]
    pick = entry.get("pick")
    return items[-1:] if pick == "last" else items[:1] if pick == "first" else items


_CONDITIONS: Mapping[str, Callable[[Item, str], bool]] = {
    "by": lambda one, name: one.author == name,
    "says": lambda one, pattern: bool(re.search(pattern, one.own, re.IGNORECASE)),
    "since": lambda one, day: str(one.day) >= day,
    "until": lambda one, day: str(one.day)[: len(day)] <= day,
    "version": lambda one, number: str(one.version) == number,
    "path": lambda one, path: bool(re.search(path, one.id)),
    "reply": lambda one, flag: one.is_reply == (flag == "True"),
}


def _chunks_with(archive: Archive, entry: Mapping[str, Any]) -> frozenset[str]:
    """The turns of a chat that say something; the sample has pseudonyms in place of speakers."""
    rows = archive.index.connection.execute(
        "SELECT chunk_no FROM chunks WHERE chunk_kind = 'turn' AND regexp_matches(text_display, ?, 'i')",
        [entry["says"]],
    ).fetchall()
    return frozenset(f"chunk {number}" for (number,) in rows)


class Answer(NamedTuple):
    """The label and the items of the hits of a question, best first."""

    label: str
    items: list[str]


def answers(archive: Archive) -> list[Answer]:
    """What the index says to each question, as `search` shows it."""
    number_of = dict(
        archive.index.connection.execute("SELECT chunk_id, chunk_no FROM chunks").fetchall()
    )
    found: list[Answer] = [Answer("", [])] * len(archive.questions)
    for source in sorted({question.source for question in archive.questions}):
        own = [n for n, question in enumerate(archive.questions) if question.source == source]
        texts = [archive.questions[n].text for n in own]
        filters = Filters(source=source) if source else Filters()
        result = archive.index.search(texts, filters, LIMIT)
        hits: dict[int, list[list[str]]] = defaultdict(list)
        for query, chunk in zip(
            *(result.hits.column(name).to_pylist() for name in ("query", "chunk_id")), strict=True
        ):
            number = number_of[chunk]
            hits[query].append([archive.item_of.get(number, ""), f"chunk {number}"])
        for place, n in enumerate(own):
            right = archive.questions[n].right
            items = [next((i for i in names if i in right), names[0]) for names in hits[place]]
            found[n] = Answer(result.labels[place], items)
    return found


def by_words(archive: Archive) -> list[list[str]]:
    """The items that bm25s ranks first, over titles and own texts with the author's name."""
    turns = archive.index.connection.execute(
        "SELECT chunk_no, text_display FROM chunks WHERE chunk_kind = 'turn' ORDER BY chunk_no"
    ).fetchall()
    texts = [(one.id, one.source, f"{one.author}\n{one.title}\n{one.own}") for one in archive.items]
    if archive.name == "sample":
        texts += [(f"chunk {number}", "", text) for number, text in turns]
    stemmer, found = Stemmer.Stemmer("english"), {}
    for source in {question.source for question in archive.questions}:
        own = [text for text in texts if text[1] == source or not source]
        retriever = bm25s.BM25()
        corpus = bm25s.tokenize(
            [t for *_, t in own], stopwords="en", stemmer=stemmer, show_progress=False
        )
        retriever.index(corpus, show_progress=False)
        for question in archive.questions:
            if question.source == source:
                query = bm25s.tokenize(
                    question.text, stopwords="en", stemmer=stemmer, show_progress=False
                )
                best, _ = retriever.retrieve(query, k=min(LIMIT, len(own)), show_progress=False)
                found[question] = [own[n][0] for n in best[0]]
    return [found[question] for question in archive.questions]


def is_aside(question: Question) -> bool:
    """True for the half on which nothing is chosen."""
    return is_aside_text(" ".join(question.turns) or question.text)


def is_aside_text(question: str) -> bool:
    """True for a question whose half is aside, by the hash of its text."""
    return _hash(question) % 2 == 1


def main() -> None:
    """Ask and print."""
    parser = new_parser(__doc__)
    parser.add_argument("--corpus", action="append", choices=CORPORA, help="default: all")
    parser.add_argument("--state", type=Path, required=True, help="where indexes are kept")
    parser.add_argument("--half", choices=("tuned", "aside"), help="default: both")
    parser.add_argument(
        "--wrong", action="store_true", help="print questions with a wrong first hit"
    )
    parser.add_argument("--dialogues", action="store_true", help="ask those of dialogues.yaml")
    parser.add_argument("--count", action="store_true", help="print how many questions there are")
    arguments = parser.parse_args()
    columns = ("corpus", "half", "questions", "first right", "wrong PASS", "MRR@10", "bm25s first")
    table, console = new_table("questions as people ask them", columns, left=2), Console(width=150)
    kinds: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for name in arguments.corpus or CORPORA:
        archive = archive_of(name, arguments.state)
        if arguments.count:
            console.print(name, Counter(is_aside(q) for q in archive.questions))
            continue
        ways = {"": archive.questions}
        if arguments.dialogues:
            asked = dialogues(archive)
            by_rule = (query_rewriting.by_rules(q.text, q.turns).used for q in asked)
            ruled = [q._replace(text=used) for q, used in zip(asked, by_rule, strict=True)]
            ways = {" as they stand": asked, " by rules": ruled}
        for way, archive.questions in ways.items():
            rows = [*zip(archive.questions, answers(archive), by_words(archive), strict=True)]
            for half in [arguments.half] if arguments.half else ["tuned", "aside"]:
                own = [row for row in rows if is_aside(row[0]) == (half == "aside")]
                table.add_row(name + way, half, *cells(own))
                for question, answer, _ in own if arguments.wrong else ():
                    if not _first(question, answer.items):
                        _print_wrong(console, question, answer)
            for question, answer, _ in rows:
                if not arguments.half or is_aside(question) == (arguments.half == "aside"):
                    kinds[name + way, question.kind].append(_first(question, answer.items))
    console.print(table)
    for (name, kind), right in kinds.items():
        console.print(f"{name}, {kind}: {sum(right)} of {len(right)}")


def _print_wrong(console: Console, question: Question, answer: Answer) -> None:
    line = f"{question.kind} [{answer.label}] {question.text!r}: {answer.items[:2]}"
    console.print(line, markup=False)


def _first(question: Question, items: Sequence[str]) -> bool:
    return bool(items) and items[0] in question.right


def cells(rows: Collection[tuple[Question, Answer, list[str]]]) -> list[str]:
    """The figures of a row of the table."""
    first = [_first(question, answer.items) for question, answer, _ in rows]
    passed = [
        answer.label == "PASS" and not right
        for (_, answer, _), right in zip(rows, first, strict=True)
    ]
    ranks = [
        next((1 / n for n, item in enumerate(answer.items, 1) if item in question.right), 0.0)
        for question, answer, _ in rows
    ]
    peer = [_first(question, items) for question, _, items in rows]
    means = (sum(values) / max(len(rows), 1) for values in (first, passed, ranks, peer))
    return [str(len(rows)), *(f"{mean:.3f}" for mean in means)]


if __name__ == "__main__":
    main()
