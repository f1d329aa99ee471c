-- class: data_stall
-- about: The training waits for its data.
-- Over the last steps more than three tenths of the time went into waiting for the next batch.
SELECT CASE WHEN s.rank IS NULL THEN [] ELSE [s.rank] END AS ranks, [s.pid] AS pids, 'warning' AS severity,
       round(100 * sum(s.data_wait) / sum(s.duration)) || ' % of the time of ' || count(*)
       || ' steps is waiting for data: ' || round(avg(s.data_wait) * 1e3, 1) || ' of '
       || round(avg(s.duration) * 1e3, 1) || ' ms a step' AS evidence,
       'probing -t ' || s.pid || ' flamegraph -d 10 --threads -o data.svg' AS next
FROM global.python.torch_steps AS s
WHERE s.timestamp > now() - to_seconds({patience} * 6)
GROUP BY s.host, s.pid, s.rank
HAVING count(*) >= 10 AND sum(s.data_wait) > 0.3 * sum(s.duration) AND avg(s.data_wait) > 0.002
