"""A node's files: commits, branches, folders, and the view that a trial gets of them."""
