"""The five designs as settings: the values of sections that make a build and a search follow one."""

from collections.abc import Mapping
from typing import Any

from transforms.settings.search import BUILT_IN_PROFILES

_VECTORS: Mapping[str, Any] = BUILT_IN_PROFILES["vector"]
DESIGNS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "pginbox": {
        "chunks": {
            "policy": "pairs",
            "message_chars": 2000,
            "recursive_chars": 8000,
            "overlap_chars": 300,
            "anchor_chars": 800,
            "anchor_chars_short": 1500,
            "short_reply_chars": 200,
            "attachment_chars": 8000,
            "attachment_syntax_chars": 32_000,
        },
        "search": {"fusion": "blend", "thread_weight": 1.0, "expand": ("parent", "neighbours")},
        "rerank": {"method": "features"},
    },
    "secondbrain": {
        "document_chunks": {
            "chunker": "sections",
            "target_chars": 700,
            "overlap_chars": 100,
            "min_chars": 100,
            "context_chars": 0,
        },
        "search": {
            **BUILT_IN_PROFILES["rrf"],
            "candidates_lexical": 50,
            "candidates_vector": 30,
            "rrf_k": 60,
            "mail_weight": 0.0,
            "page_weight": 0.0,
            "similarity_threshold": 0.3,
            "limit": 5,
        },
        "rerank": {"top": 10},
    },
    "ra": {"document_chunks": {"chunker": "tree"}, "search": BUILT_IN_PROFILES["sections"]},
    "information-graph": {
        "document_chunks": {
            "chunker": "semantic",
            "strict": True,
            "semantic_min_tokens": 250,
            "semantic_deep_tokens": 500,
            "semantic_max_tokens": 750,
        },
        "search": _VECTORS,
    },
    "egregora": {
        "search": {**_VECTORS, "candidates_vector": 5, "per_document": 1, "limit": 5},
        "conversations": {"query_tokens": 1800, "query_overlap_tokens": 150},
        # Else its mode "ann" would compare all vectors of an index with more than a thousand.
        "index": {"ann_max_vectors": 100_000},
        "context": {
            "strategy": "chunks",
            "candidates": 5,
            "top_k": 5,
            "mode": "ann",
            "lexical_weight": 0.0,
            "pick": "score",
            "include": "later",
            "by_parts": False,
            "dedup_strategy": "document",
            "dedup_max_per_doc": 1,
            "calibrated": True,
        },
    },
}
