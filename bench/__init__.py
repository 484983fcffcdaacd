"""`make bench`: each figure beside a peer or a physical limit that was measured in the same run on the same data."""
