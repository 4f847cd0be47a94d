"""The dashboard: a local web server that shows the experiments of a repository, live."""
