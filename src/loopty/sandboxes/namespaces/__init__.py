"""The sandbox of Linux namespaces.

It imports little, because trials copy it.
"""
