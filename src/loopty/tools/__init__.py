"""The tools of coding agents, and the doors to them: the Model Context Protocol, and files."""
