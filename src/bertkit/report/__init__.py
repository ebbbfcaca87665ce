"""Pages with curves, tables and samples, made from logs and results alone."""
