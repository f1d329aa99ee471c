-- class: straggler
-- about: One rank needs longer than the others, which wait for it.
-- What a rank does by itself is its step without the time in collectives. Others means the middle one of the
-- job (of two the faster): with thousands of ranks that is all others.
SELECT [assumeNotNull(rank)] AS ranks, [assumeNotNull(pid)] AS pids, 'warning' AS severity,
       concat('rank ', toString(assumeNotNull(rank)), ' on ', assumeNotNull(host), ' needs ',
              toString(round(busy_s * 1e3, 1)), ' ms of its own for a step, the others ',
              toString(round(others_busy_s * 1e3, 1)), ' ms; it waits ', toString(round(wait_s * 1e3, 1)),
              ' ms in collectives, they ', toString(round(others_wait_s * 1e3, 1)), ' ms') AS evidence,
       concat('on ', assumeNotNull(host), ': probing -t ', toString(assumeNotNull(pid)),
              ' flamegraph -d 10 -o rank', toString(assumeNotNull(rank)), '.svg') AS next
FROM (
  SELECT job, host, pid, rank, assumeNotNull(avg(duration)) AS step_s,
         assumeNotNull(median(duration - ifNull(wait, 0))) AS busy_s, median(ifNull(wait, 0)) AS wait_s
  FROM (SELECT job, host, pid, rank, step, duration FROM global.python.torch_steps
        WHERE timestamp > now() - toUInt32({patience} * 6) AND isNotNull(rank) AND isNotNull(duration)) AS steps
  ALL LEFT JOIN (SELECT host, pid, step, sum(duration_ms) / 1e3 AS wait FROM global.python.collectives
                 WHERE timestamp > now() - toUInt32({patience} * 6) AND isNotNull(duration_ms)
                 GROUP BY host, pid, step) AS waiting
  USING host, pid, step
  GROUP BY job, host, pid, rank HAVING count() >= 5
) AS own
ALL INNER JOIN (
  SELECT job, quantileExact(0.49)(busy) AS others_busy_s, quantileExact(0.49)(waits) AS others_wait_s
  FROM (
    SELECT job, host, pid, assumeNotNull(median(duration - ifNull(wait, 0))) AS busy, median(ifNull(wait, 0)) AS waits
    FROM (SELECT job, host, pid, step, duration FROM global.python.torch_steps
          WHERE timestamp > now() - toUInt32({patience} * 6) AND isNotNull(rank) AND isNotNull(duration)) AS steps
    ALL LEFT JOIN (SELECT host, pid, step, sum(duration_ms) / 1e3 AS wait FROM global.python.collectives
                   WHERE timestamp > now() - toUInt32({patience} * 6) AND isNotNull(duration_ms)
                   GROUP BY host, pid, step) AS waiting
    USING host, pid, step
    GROUP BY job, host, pid HAVING count() >= 5
  )
  GROUP BY job HAVING count() >= 2
) AS others USING job
WHERE busy_s > 1.3 * others_busy_s AND busy_s - others_busy_s > 0.1 * step_s
ORDER BY busy_s - others_busy_s DESC LIMIT 20
