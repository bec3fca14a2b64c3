"""Relations between mails: references, threads, patch series, quotes without marks. One mail alone
is in `mail`.
"""
