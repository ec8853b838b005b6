"""One module per backend, its SDK imported inside its factory; the registry; the public fake model."""
