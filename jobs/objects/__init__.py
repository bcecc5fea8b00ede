"""Folders in object stores (S3, Google Cloud Storage, Azure), where a release and its journal may be kept.

Nothing here renames, locks or lists to decide: what must happen once is a conditional put. Import from the modules.
"""
