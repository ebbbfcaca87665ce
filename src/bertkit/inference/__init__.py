"""Answers from a checkpoint: predictions, filled masks and embeddings, batched by tokens."""
