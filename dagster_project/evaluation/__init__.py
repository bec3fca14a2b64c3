"""Runs an evaluation over a published index and stores its report; the measures are in
`transforms.evaluation`.
"""
