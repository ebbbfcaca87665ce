"""Pre-training (paper, section 3.1): sentence pairs, masking, batches, the objective, the run."""
