"""The reply store: replies by request key, and claims on the requests that a run is sending."""
