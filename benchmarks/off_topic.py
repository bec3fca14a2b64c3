"""How often texts that a corpus says nothing about get no context.

    python benchmarks/off_topic.py SETTINGS...

For each published index, named by its settings file: the share of the off-topic and of the nonsense
texts of label_queries.yaml for which `weft context` answers NO_HITS.
"""

from contextlib import closing
from pathlib import Path

import yaml
from labels import QUERIES
from printing import new_parser, new_table
from rich.console import Console

from dagster_project.config.settings import load_settings
from dagster_project.context.conversation_context import ConversationText, context_of
from dagster_project.index.search.opened_index import open_index
from transforms.context.selection import NO_HITS


def main() -> None:
    """Print one table."""
    parser = new_parser(__doc__)
    parser.add_argument("settings", nargs="+", type=Path, help="settings files of built corpora")
    texts = yaml.safe_load(QUERIES.read_text())
    table = new_table(
        "texts without context", ("settings", *(f"{n} ({len(of)})" for n, of in texts.items()))
    )
    for path in parser.parse_args().settings:
        settings = load_settings(path)
        with closing(open_index(settings)) as index:
            outcomes = {
                name: [context_of(settings, ConversationText(text), index).outcome for text in of]
                for name, of in texts.items()
            }
        table.add_row(
            str(path), *(f"{of.count(NO_HITS) / len(of):.2f}" for of in outcomes.values())
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
