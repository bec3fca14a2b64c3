"""Context for conversations and files: passages that many queries at once find in the published
index.
"""
