"""Sources in, documents out: dumps, books, pages and tables become text that `prepare` reads."""
