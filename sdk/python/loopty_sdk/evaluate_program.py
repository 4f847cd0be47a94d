"""Score a program with an evaluator of OpenEvolve or SkyDiscover, as it is: `evaluate(program_path)`.

    python3 -m loopty_sdk.evaluate_program evaluator.py program.py [--stage 1]

With `--stage N` it calls `evaluate_stageN` instead, for a stage of the cascade. The score is `combined_score`,
else the mean of the numbers. An exception is a failure, never a score.
"""

from .program_evaluation import main

if __name__ == "__main__":
    main()
