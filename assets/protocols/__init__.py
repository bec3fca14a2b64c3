"""What the assets need from the world, as protocols; dagster_project implements them."""
