"""The ``llmprops`` command, which calls the same functions as the plugin."""
