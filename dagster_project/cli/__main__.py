"""`python -m dagster_project.cli`: the command `weft` where its script is not on the path."""

from dagster_project.cli.command import run

# A process that multiprocessing spawns imports this module again, under another name.
if __name__ == "__main__":
    run()
