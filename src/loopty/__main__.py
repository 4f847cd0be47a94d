"""`python -m loopty` is the `loopty` command."""

from loopty.cli.main import main

main()
