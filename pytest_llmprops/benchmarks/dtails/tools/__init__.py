"""DTAiLS's tools that read and write files: mining concepts, annotation by people, rules files."""
