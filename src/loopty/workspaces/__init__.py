"""The files of nodes: commits, refs, folders, and what a trial sees of them."""
