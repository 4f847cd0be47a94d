"""The files of nodes: commits, branches, folders, and what a trial sees of them."""
