"""Spark and Ray: partitions are made, and texts embedded, by other processes and machines, which
import no Dagster.
"""

from dagster_project.extensions import EngineOffer, Extra

_ENGINES = "dagster_project.extras.engines.task_engine"
EXTRA = Extra(
    engines={
        "spark": EngineOffer(f"{_ENGINES}:spark_engine"),
        "ray": EngineOffer(f"{_ENGINES}:ray_engine", embedder=f"{_ENGINES}:ray_embedder"),
    }
)
