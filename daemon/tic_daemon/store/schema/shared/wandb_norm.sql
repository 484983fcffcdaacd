-- Equal for equal values of wandb_value `v`: 1 and 1.0 are one number, NaN is NaN; media and lists are looked at no closer.
CASE v.kind
    WHEN 'int' THEN CASE WHEN v.value_text IS NOT NULL THEN hash('i', v.value_text) ELSE hash(v.value + 0.0) END
    WHEN 'number' THEN hash(v.value + 0.0) WHEN 'bool' THEN hash('b', v.value) WHEN 'text' THEN hash('t', v.value_text)
    WHEN 'media' THEN 1 WHEN 'json' THEN 1 ELSE hash(v.kind) END
