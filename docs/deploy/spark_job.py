"""What spark-submit runs: `weft` with the arguments behind it, in the session that Spark began."""

from dagster_project.cli.main import main

main()
