"""Why a trial failed: the lines that say it, the known causes, and a remedy for each."""
