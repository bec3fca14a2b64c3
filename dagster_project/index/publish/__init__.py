"""From the lake to a published version, in full or onto the one before; the files beside it are in
`files`.
"""
