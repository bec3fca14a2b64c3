"""The ledger: one SQLite file that records looks at source files, at the lake and at the index.

Not here: the truth. That is in the files themselves, and a lost ledger is rebuilt from them.
"""
