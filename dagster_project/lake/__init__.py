"""The lake of Parquet files."""
