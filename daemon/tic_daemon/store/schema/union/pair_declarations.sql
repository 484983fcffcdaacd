-- One tic.toml serves all daemons of a workspace: of one name the declaration that was read last.
SELECT * EXCLUDE (part_store) FROM part_pair_declarations
QUALIFY row_number() OVER (PARTITION BY pair ORDER BY observed_at DESC, part_store) = 1
