"""The parts of a prompt's context: a few lines of text each, bounded, with fences around text from elsewhere."""
