"""The process beside a Landlock trial that starts it, answers for it and ends it.

It is started for every trial, so it imports nothing but the standard library, and little of that.
"""
