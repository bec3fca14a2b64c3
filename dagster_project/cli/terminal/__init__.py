"""How the command line speaks: groups of commands, their streams and the console."""
