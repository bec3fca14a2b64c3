"""The one declaration of every table: column names, Arrow types, units and meaning, by subject."""
