"""The ``llmprops`` command: a thin shell over the same functions as the plugin."""
