"""Seeded random edits of code: the control that every code proposer has to beat."""

from loopty.proposers.mutation.draw import Mutation, mutate

__all__ = ["Mutation", "mutate"]
