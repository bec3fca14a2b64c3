"""From the queries of a conversation and their candidates to a block of context; ranking is in
`retrieval`.
"""
