"""What a run writes and others read: plain dataclasses, which pydantic reads, writes and makes the JSON Schema of."""
