"""The parts of a briefing: each a few lines of text, bounded, with what others wrote in a fence."""
