"""A retriever as LangChain and LlamaIndex know one, without their packages: documents for a question."""

from dataclasses import dataclass, field

import weft


@dataclass
class Document:
    page_content: str
    metadata: dict[str, object] = field(default_factory=dict)


class WeftRetriever:
    """Gives cited texts for a question, and none if nothing in the index answers it."""

    def __init__(self, index: weft.Index, k: int = 4, **conditions: str):
        self.index, self.k, self.conditions = index, k, conditions

    def invoke(self, question: str) -> list[Document]:
        hits = self.index.search(question, self.k, **self.conditions).hits
        texts = [self.index.get(hit.citation).text for hit in hits]
        facts = [
            hit.model_dump(include={"citation", "title", "author", "at", "score"}) for hit in hits
        ]
        return [Document(text, fact) for text, fact in zip(texts, facts, strict=True)]


with weft.open() as index:
    for document in WeftRetriever(index, kind="message").invoke(
        "is a torn WAL record a data loss?"
    ):
        print(document.metadata["citation"], document.page_content[:60].replace("\n", " "))
