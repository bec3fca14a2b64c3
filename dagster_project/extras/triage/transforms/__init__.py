"""The triage of a new issue: its summary, the facts that it lacks, the issues that it repeats."""
