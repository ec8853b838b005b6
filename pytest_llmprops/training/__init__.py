"""Fine-tuning with the Trainer of transformers: settings, batches, checkpoints, cards, and measuring the model."""
