"""Training of the models of ERAS: word segmenters (section 3.1) and sentiment classifiers (section 4)."""
