"""Score a program with the evaluator of another tool, as it is.

    python3 -m loopty_sdk.evaluate_program evaluator.py program.py [--stage 1]
    python3 -m loopty_sdk.evaluate_program evaluate.py initial.py --as shinka

Without `--as` it calls `evaluate(program_path)`, as OpenEvolve and SkyDiscover do. An exception is a failure,
never a score.
"""

from .program_evaluation import main

if __name__ == "__main__":
    main()
