-- class: slow_checkpoint
-- about: Saving checkpoints takes too much of the time.
SELECT arrayFilter(r -> r >= 0, [ifNull(rank, toInt64(-1))]) AS ranks, [assumeNotNull(pid)] AS pids,
       'warning' AS severity,
       concat(toString(round(100 * took / seconds)), ' % of the last ', toString(round(seconds)), ' s on ',
              assumeNotNull(host), ' went into ', toString(times), ' calls of ', assumeNotNull(name),
              '(), the longest ', toString(round(longest, 2)), ' s') AS evidence,
       concat('on ', assumeNotNull(host), ': probing -t ', toString(assumeNotNull(pid)),
              ' query "SELECT timestamp, step, duration_ms, attributes FROM python.spans WHERE name = ''',
              assumeNotNull(name), '''"') AS next
FROM (
  SELECT host, pid, rank, name, count() AS times, assumeNotNull(sum(duration_ms)) / 1e3 AS took,
         assumeNotNull(max(duration_ms)) / 1e3 AS longest,
         greatest(toFloat64(toUInt32(now()) - min(toUInt32(timestamp))), {patience} * 3) AS seconds
  FROM global.python.spans
  WHERE name IN ('torch.save', 'torch.distributed.checkpoint.save')
    AND timestamp > now() - toUInt32({patience} * 30)
  GROUP BY host, pid, rank, name
)
WHERE times >= 2 AND took > 0.1 * seconds
