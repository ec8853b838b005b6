"""Provider batches: pending requests form waves, which a provider answers within a day at half the price."""
