-- class: gc_pause
-- about: The garbage collector holds up the process.
SELECT arrayFilter(r -> r >= 0, [ifNull(rank, toInt64(-1))]) AS ranks, [assumeNotNull(pid)] AS pids,
       'warning' AS severity,
       concat(toString(count()), ' garbage collections on ', assumeNotNull(host), ' took ',
              toString(round(assumeNotNull(sum(duration_ms)))), ' ms of the last ', toString(round({patience} * 6)),
              ' s, the longest ', toString(round(assumeNotNull(max(duration_ms)), 1)), ' ms') AS evidence,
       concat('on ', assumeNotNull(host), ': probing -t ', toString(assumeNotNull(pid)),
              ' eval "import gc; (gc.get_threshold(), len(gc.get_objects()))"') AS next
FROM global.python.gc
WHERE timestamp > now() - toUInt32({patience} * 6)
GROUP BY host, pid, rank
HAVING sum(duration_ms) > 0.05 * {patience} * 6000 OR max(duration_ms) > 500
