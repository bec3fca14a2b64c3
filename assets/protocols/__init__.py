"""The needs of the assets from the world, as protocols; dagster_project implements them."""
