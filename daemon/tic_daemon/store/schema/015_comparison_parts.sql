-- What a comparison hangs on besides its two sides, and its figures by version of the policy. Append-only.

CREATE TABLE comparison_file (
    rec_id BIGINT, comparison_id VARCHAR,
    role VARCHAR,               -- tokens | repeat_a | repeat_b | manifest; said: what a manifest says of that file, sha256 the hash of it
    path VARCHAR,
    sha256 VARCHAR,             -- as it was read
    observed_at TIMESTAMP
);

-- Of responses that several versions sampled, each segment counts for its own.
CREATE TABLE comparison_version (
    rec_id BIGINT, comparison_id VARCHAR, policy VARCHAR, valid_tokens BIGINT, mismatched_tokens BIGINT, logprob_mae DOUBLE,
    observed_at TIMESTAMP
);
