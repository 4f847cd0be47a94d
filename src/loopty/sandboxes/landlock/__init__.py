"""The sandbox of Landlock.

It is started for every trial, so it imports only the standard library, and little of that.
"""
