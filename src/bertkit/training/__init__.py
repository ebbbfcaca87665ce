"""What every training shares: the loop, optimizer, schedule, restart points, logs and seeds."""
