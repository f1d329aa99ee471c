-- class: first_death
-- about: A rank has died; when several did, this was the first.
-- Of each job, in the last 360 times {patience} seconds. Ends with exit code 0 are none of this; an end that
-- somebody asked for (SIGTERM, SIGINT, SIGHUP) is a warning.
SELECT [who] AS ranks, [process] AS pids,
       if(how IN ('SIGTERM', 'SIGINT', 'SIGHUP'), 'warning', 'error') AS severity,
       concat('rank ', toString(who), ' of ', job, ' on ', place, ' ended', if(deaths > 1, ' first', ''), ': ', how,
              if(why = '', '', concat(', ', why)),
              if(deaths > 1, concat('; ', toString(deaths - 1), ' more within ',
                                    toString(round((last_ns - first_ns) / 1e9, 1)), ' s'), '')) AS evidence,
       concat('on ', place, ': probing -t ', toString(process), ' query "SELECT * FROM crash.stacks"') AS next
FROM (
  SELECT job, argMin(assumeNotNull(rank), timestamp_ns) AS who, argMin(assumeNotNull(pid), timestamp_ns) AS process,
         argMin(assumeNotNull(host), timestamp_ns) AS place, argMin(ifNull(message, ''), timestamp_ns) AS why,
         argMin(multiIf(isNotNull(signal), ifNull(signal, ''),
                        isNotNull(exit_code), concat('exit code ', toString(ifNull(exit_code, 0))),
                        ifNull(reason, '')), timestamp_ns) AS how,
         count() AS deaths, min(timestamp_ns) AS first_ns, max(timestamp_ns) AS last_ns
  FROM global.crash.events
  WHERE timestamp > now() - toUInt32({patience} * 360) AND isNotNull(rank)
    AND NOT (ifNull(reason, '') = 'exit' AND ifNull(exit_code, 0) = 0)
  GROUP BY job
)
