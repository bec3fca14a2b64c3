"""The settings file and the models that it is read into; the settings of stages are in
`transforms.settings`.
"""
