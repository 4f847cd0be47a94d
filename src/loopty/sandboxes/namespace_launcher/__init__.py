"""A resident process that starts trials in their own namespaces. It imports little, because trials copy it."""
