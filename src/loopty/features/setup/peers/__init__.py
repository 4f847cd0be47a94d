"""Tasks of other tools, recognised by their files and wired as they are."""
