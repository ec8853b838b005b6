"""Mining concepts, annotation by people, and rules files of DTAiLS. May read and write files."""
