CREATE OR REPLACE TEMP TABLE t_cut_ (source_id BIGINT, print UBIGINT, settled BOOLEAN, cut BIGINT);
CREATE OR REPLACE TEMP TABLE t_tail_ (
    run_id VARCHAR, attempt BIGINT, source_id BIGINT, outer_proc VARCHAR, pos BIGINT, rule VARCHAR, rec_id BIGINT, what VARCHAR, open BOOLEAN,
    cache VARCHAR, track VARCHAR, phase VARCHAR, level VARCHAR, own_at TIMESTAMP, from_at TIMESTAMP, told STRUCT(
    generation INTEGER, byte_offset BIGINT, line_no BIGINT, host VARCHAR, rank INTEGER, pid BIGINT, step BIGINT, path VARCHAR, console BOOLEAN,
    place_host VARCHAR, root VARCHAR, run_how VARCHAR, hi_attempt BIGINT, observed_at TIMESTAMP, printed TIMESTAMP)
);
CREATE OR REPLACE TEMP TABLE t_engine_ (
    run_id VARCHAR, attempt BIGINT, source_id BIGINT, outer_proc VARCHAR, epoch BIGINT, pos BIGINT, drop_pos BIGINT, sleep_pos BIGINT,
    sleep_all_pos BIGINT, load_pos BIGINT, weights_pos BIGINT, kv_pos BIGINT, reset_pos BIGINT, upd_pos BIGINT, answer_pos BIGINT, use_pos BIGINT,
    heard BOOLEAN, keeps_kv BOOLEAN
);
CREATE OR REPLACE TEMP TABLE t_cache_ (source_id BIGINT, outer_proc VARCHAR, pos BIGINT, cache VARCHAR);
CREATE OR REPLACE TEMP TABLE t_held_ (
    kind VARCHAR, run_id VARCHAR, attempt BIGINT, source_id BIGINT, outer_proc VARCHAR, epoch BIGINT, pos BIGINT, rec_id BIGINT, was_heard BOOLEAN,
    woke_kv BOOLEAN, next_load BIGINT, next_sleep BIGINT, next_weights BIGINT, next_kv BIGINT, next_reset BIGINT, next_answer BIGINT,
    next_upd BIGINT, next_use BIGINT, until_pos BIGINT, until_at TIMESTAMP, ended_at TIMESTAMP, from_at TIMESTAMP, told STRUCT(
    generation INTEGER, byte_offset BIGINT, line_no BIGINT, host VARCHAR, rank INTEGER, pid BIGINT, step BIGINT, path VARCHAR, console BOOLEAN,
    place_host VARCHAR, root VARCHAR, run_how VARCHAR, hi_attempt BIGINT, observed_at TIMESTAMP, printed TIMESTAMP),
    off BOOLEAN, last BIGINT, found BOOLEAN, done BOOLEAN
);
