"""The run record: what a run was made of, as its launcher says it and as its workers show it.

fields.py    which fields there are, and where each is found: fields.toml, which is data
flat.py      a resolved configuration, a receipt or a sidecar as keys and values, without secrets
asking.py    the record of a run out of the views
words.py     the same as text
"""
