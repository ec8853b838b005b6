"""DTAiLS: choosing the right word in translation (Barua, Subramanian, Yin and Suhr)."""
