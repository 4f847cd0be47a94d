"""The supervisor of a Landlock trial: the process that starts it, answers its system calls and ends it.

It is started for every trial, so it imports only the standard library, and little of that.
"""
