-- class: nan
-- about: A logged value is not a number any more.
-- Looks at what the jobs log (python.metrics) in the last hundred times {patience} seconds.
SELECT arrayFilter(r -> r >= 0, [ifNull(rank, toInt64(-1))]) AS ranks, [assumeNotNull(pid)] AS pids,
       'error' AS severity,
       concat(assumeNotNull(name), ' of ', assumeNotNull(host), ' is ', if(isNaN(first), 'NaN', 'infinite'),
              if(isNull(since), '', concat(' since step ', toString(assumeNotNull(since)))), ' (',
              toString(times), ' times)') AS evidence,
       concat('on ', assumeNotNull(host), ': probing -t ', toString(assumeNotNull(pid)),
              ' query "SELECT * FROM training_logs ORDER BY timestamp DESC LIMIT 20"') AS next
FROM (
  SELECT host, pid, rank, name, min(step) AS since, argMin(assumeNotNull(value), timestamp_ns) AS first,
         count() AS times
  FROM global.python.metrics
  WHERE timestamp > now() - toUInt32({patience} * 100) AND isNotNull(value)
    AND (isNaN(assumeNotNull(value)) OR isInfinite(assumeNotNull(value)))
  GROUP BY host, pid, rank, name
)
