"""How fast bertkit is on a machine, and what the machine could do at most."""
