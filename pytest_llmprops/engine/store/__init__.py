"""The reply store: replies by request key, in a file or a database."""
