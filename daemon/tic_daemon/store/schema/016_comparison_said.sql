-- What manifests say of files that are compared, as the daemon that compares took it last. Append-only: of one key (host and
-- path) the row with the greatest rec_id counts. A manifest may grow: of the files that it named before the same is said.
CREATE TABLE comparison_said (
    rec_id BIGINT, host VARCHAR,
    path VARCHAR,               -- a side or a repeat; or a manifest
    said VARCHAR,               -- of a file the hash of what its manifest says of it (compare/said.py), '' nothing; of a manifest
                                -- the SHA-256 with which it was looked at, after all rows of its files
    observed_at TIMESTAMP
);
