-- class: data_stall
-- about: The training waits for its data.
SELECT arrayFilter(r -> r >= 0, [ifNull(rank, toInt64(-1))]) AS ranks, [assumeNotNull(pid)] AS pids,
       'warning' AS severity,
       concat(toString(round(assumeNotNull(100 * sum(data_wait) / sum(duration)))), ' % of the time of ',
              toString(count()), ' steps on ', assumeNotNull(host), ' is waiting for data: ',
              toString(round(assumeNotNull(avg(data_wait)) * 1e3, 1)), ' of ',
              toString(round(assumeNotNull(avg(duration)) * 1e3, 1)), ' ms a step') AS evidence,
       concat('on ', assumeNotNull(host), ': probing -t ', toString(assumeNotNull(pid)),
              ' flamegraph -d 10 --threads -o data.svg') AS next
FROM global.python.torch_steps
WHERE timestamp > now() - toUInt32({patience} * 6)
GROUP BY host, pid, rank
HAVING count() >= 10 AND sum(data_wait) > 0.3 * sum(duration) AND avg(data_wait) > 0.002
