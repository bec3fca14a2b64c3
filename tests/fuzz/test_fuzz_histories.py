"""Random histories of archives: what is built bit by bit shows the same as what is built at once."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.archives import Mail, Workspace, differences, discussion, rebuilt
from tests.fuzz.fuzzing import seeds

pytestmark = pytest.mark.exhaustive

STEPS = 2
ARCHIVES = ("dev/dev.2004-01.mbox", "dev/dev.2004-02.mbox", "users/users.2004-01.mbox")
NUMBERS = 320
"""Mails have numbers below this; a reply names any of them, so that parents are missing, come late
and go.
"""


class History:
    """The mails of the archives of two lists, and random changes of them."""

    def __init__(self, chance: random.Random):
        self.random = chance
        shared = discussion(300, 3, "garbage collector")
        self.archives: dict[str, list[Mail]] = {
            ARCHIVES[0]: discussion(0, 6, "compactor"),
            ARCHIVES[1]: [*discussion(100, 6, "write-ahead log"), *shared],
            ARCHIVES[2]: [*discussion(200, 6, "shell"), *shared],
        }
        self.done: list[str] = []

    def change(self) -> None:
        """One change, which `done` names."""
        kinds = (
            self.reply,
            self.thread,
            self.remove,
            self.edit,
            self.crosspost,
            self.join,
            self.patch,
            self.empty,
        )
        kind = self.random.choices(kinds, weights=(4, 1, 3, 3, 2, 2, 3, 1))[0]
        if not any(len(mails) > 3 for mails in self.archives.values()):
            kind = self.thread  # little is left that could change
        self.done.append(f"{kind.__name__} {kind()}")

    def reply(self) -> str:
        """A mail that answers one that is there, or not yet, and repeats a line of it with or
        without a mark.
        """
        parent = self.random.randrange(NUMBERS)
        said = next(
            (m.body for mails in self.archives.values() for m in mails if m.number == parent), ""
        )
        start = self.random.choice(("", "> ", "Hm. "))
        return self._add(
            self._mail(f"{start}{said}\nThat is so in case {parent}.", reply_to=parent)
        )

    def thread(self) -> str:
        """Three mails on a subject, which two threads may have."""
        first, topic = (
            self.random.randrange(NUMBERS - 3),
            self.random.choice(("compactor", "shell", "vacuum")),
        )
        return ", ".join(self._add(mail) for mail in discussion(first, 3, topic))

    def remove(self) -> str:
        return self._any().pop(self.random.randrange(3) - 3).message_id

    def edit(self) -> str:
        """A mail says something else, in one archive."""
        mails = self._any()
        place = self.random.randrange(len(mails))
        mails[place] = replace(
            mails[place], body=f"{mails[place].body}\nNow measured {self.random.random()}."
        )
        return mails[place].message_id

    def crosspost(self) -> str:
        """A mail of an archive comes to another, perhaps before what stands there."""
        mail = self.random.choice(self._any())
        target = self.archives[self.random.choice(ARCHIVES)]
        target.insert(self.random.randrange(len(target) + 1), mail)
        return mail.message_id

    def join(self) -> str:
        one, other = (self.random.randrange(NUMBERS) for _ in range(2))
        references = f"References: <m{one}@example.org> <m{other}@example.org>"
        return self._add(self._mail(f"Both {one} and {other} say so.", headers=(references,)))

    def patch(self) -> str:
        version, part = self.random.randint(1, 3), self.random.randint(0, 2)
        subject = f"[PATCH v{version} {part}/2] Make part {part} faster"
        body = f"Slow.\n---\n a.c | 2 +-\n\ndiff --git a/a.c b/a.c\n--- a/a.c\n+++ b/a.c\n@@ -1 +1 @@\n-a\n+b{version}\n"
        return self._add(self._mail(body, subject=subject))

    def empty(self) -> str:
        """Nearly all of an archive goes."""
        mails = self._any()
        del mails[3:]
        return str(len(mails))

    def _mail(self, body: str, **more: Any) -> Mail:
        sender = f"p{self.random.randrange(4)}@example.org"
        return replace(
            Mail(self.random.randrange(NUMBERS), body, "Re: compactor", sender=sender), **more
        )

    def _add(self, mail: Mail) -> str:
        self.archives[self.random.choice(ARCHIVES)].append(mail)
        return mail.message_id

    def _any(self) -> list[Mail]:
        """An archive that can lose a mail."""
        return self.random.choice([mails for mails in self.archives.values() if len(mails) > 3])


@pytest.mark.parametrize(("seed", "chance"), list(seeds(1)))
def test_what_came_bit_by_bit_shows_what_all_at_once_does(
    built: Workspace, tmp_path: Path, seed: int, chance: random.Random
):
    history = History(chance)
    for _ in range(STEPS):
        for _ in range(history.random.randint(1, 4)):
            history.change()
        for name, mails in history.archives.items():
            built.write(name, mails)
        built.build()
    assert differences(built.index, rebuilt(built, tmp_path / "full").index) == {}, (
        seed,
        history.done,
    )
