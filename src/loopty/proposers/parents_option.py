"""The words of the option `parents`, which several proposers have."""

PARENTS = (
    "The selector of the node to change (`docs/search.md`). A table sets its options: "
    '`{ kind = "islands", count = 8 }`.'
)
