"""`python -m dagster_project.cli`: the command `weft` where its script is not on the path."""

from dagster_project.cli.standby import run

# A process that multiprocessing spawns imports this module again, under another name.
if __name__ == "__main__":
    run()
