"""Runs of lines of one kind in the body of a mail: quotes, answers, code, patches, signatures."""
