"""How the pipeline works: figures, lags, plots, and checks of tables before a publish."""
