"""Buckets of mails: what belongs together is in one, and what comes changes few."""

from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from tests.transforms.mail.threads.test_threads import mail, table
from transforms.mail.threads import buckets
from transforms.mail.threads.threads import build_threads
from transforms.settings.mail import ThreadSettings

SETTINGS = ThreadSettings(subject_days=30)
IDS = [f"{letter}@x" for letter in "abcdefghijkl"]


def lists_of(mails: list[dict[str, Any]]) -> pa.Table:
    pairs = [(m["message_id"], name) for m in mails for name in m["lists"]]
    ids, names = zip(*pairs, strict=True) if pairs else ((), ())
    return pa.table(
        {"message_id": pa.array(ids, pa.string()), "list_id": pa.array(names, pa.string())}
    )


def bucketed(mails: list[dict[str, Any]]) -> dict[str, str]:
    rows = buckets.mail_buckets(table(mails), lists_of(mails), SETTINGS).to_pylist()
    return {row["message_id"]: row["bucket"] for row in rows}


@st.composite
def archives(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Mails with few ids, subjects and lists, so that references, ghosts, loops and replies by
    subject abound.
    """
    ids = draw(st.lists(st.sampled_from(IDS), unique=True, max_size=len(IDS)))
    named = st.sampled_from([*IDS, "ghost@x", ""])
    return [
        mail(
            ident,
            draw(st.none() | named),
            " ".join(draw(st.lists(named, max_size=3))),
            draw(st.none() | st.integers(0, 2000)),
            subject=draw(
                st.sampled_from(
                    ["Re: tea", "tea", "[PATCH v2 1/2] tea", "Re: [PATCH 1/2] tea", "Re: "]
                )
            ),
            lists=draw(st.lists(st.sampled_from(["l", "k"]), min_size=1, unique=True)),
        )
        for ident in ids
    ]


@pytest.mark.exhaustive
@given(mails=archives(), most=st.integers(1, 4))
@examples(80)
def test_threads_of_each_bucket_are_the_threads_of_all(mails: list[dict[str, Any]], most: int):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(buckets, "_MOST", most)
        bucket_of = bucketed(mails)
    assert bucket_of.keys() == {m["message_id"] for m in mails}
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in mails:
        groups[bucket_of[each["message_id"]]].append(each)
    parts = [build_threads(table(group), lists_of(group), SETTINGS) for group in groups.values()]
    whole = build_threads(table(mails), lists_of(mails), SETTINGS)
    for place, key in enumerate(("thread_id", "message_id")):
        made = pa.concat_tables([part[place] for part in parts] or [whole[place].slice(0, 0)])
        assert made.sort_by(key).to_pylist() == whole[place].sort_by(key).to_pylist()


def test_only_full_buckets_are_split(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(buckets, "_MOST", 2)
    before = [mail(f"m{n}", at=n, lists=["l"]) for n in range(0, 80_000, 20_000)]
    more = [mail(f"new{n}", at=60_001 + n, lists=["l"]) for n in range(5)]
    old, new = bucketed(before), bucketed(before + more)
    assert max(pl.Series(list(new.values())).value_counts()["count"]) <= 2
    assert {i: new[i] for i in ("m0", "m20000")} == {i: old[i] for i in ("m0", "m20000")}


def test_a_mail_that_joins_two_threads_brings_them_into_one_bucket(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(buckets, "_MOST", 3)
    threads = [
        mail(f"{name}{n}", name + "0" if n else None, at=at + n, lists=["l"])
        for name, at in (("a", 0), ("b", 5000), ("c", 9000))
        for n in range(2)
    ]
    old = bucketed(threads)
    new = bucketed([*threads, mail("d", "a0", "b0 a0", at=9500, lists=["l"])])
    assert len(set(old.values())) == 3
    assert new["a0"] == new["b0"] == new["b1"] == new["d"] != new["c0"]


def test_mails_without_a_time_and_of_one_second_have_a_bucket(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(buckets, "_MOST", 1)
    mails = [mail(f"m{n}", at=None if n < 3 else 0, lists=["l"]) for n in range(6)]
    assert len(set(bucketed(mails).values())) == 2


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60))
@examples(100)
def test_components_are_those_of_a_search(pairs: list[tuple[int, int]]):
    joined: dict[int, set[int]] = {node: {node} for node in range(31)}
    for one, other in pairs:
        both = joined[one] | joined[other]
        joined.update(dict.fromkeys(both, both))
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    assert buckets.components(31, *ends).tolist() == [min(joined[node]) for node in range(31)]
