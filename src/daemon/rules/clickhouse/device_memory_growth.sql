-- class: device_memory_growth
-- about: The memory of a process on a GPU grows all the time.
-- Over the last six times {patience} seconds it lies on a rising line, grew in every third of that time, and by
-- more than 32 MB and a twentieth of what it was. What grows before the first step is the start of a program.
SELECT arrayFilter(r -> r >= 0, [ifNull(rank, toInt64(-1))]) AS ranks, [assumeNotNull(pid)] AS pids,
       if(available / rate < 600, 'error', 'warning') AS severity,
       concat('memory on GPU ', toString(assumeNotNull(device)), ' of ', assumeNotNull(host), ' grows by ',
              toString(round(rate / 1048576, 2)), ' MB/s: from ', toString(round(first / 1048576)), ' to ',
              toString(round(last / 1048576)), ' MB in ', toString(round(seconds)), ' s; it has none left in ',
              toString(round(available / rate / 60)), ' min') AS evidence,
       concat('on ', assumeNotNull(host), ': probing -t ', toString(assumeNotNull(pid)), ' memory --leaks') AS next
FROM (
  SELECT host, pid, rank, device, covarPop(bytes, s) / varPop(s) AS rate, corr(bytes, s) AS fit,
         max(s) - min(s) AS seconds, argMin(bytes, s) AS first, argMax(bytes, s) AS last,
         argMax(free, s) AS available, avgIf(bytes, third = 0) AS a, avgIf(bytes, third = 1) AS b,
         avgIf(bytes, third >= 2) AS c
  FROM (
    SELECT host, pid, rank, device, timestamp_ns / 1e9 - toUInt32(now()) AS s,
           assumeNotNull(memory_total) - assumeNotNull(memory_used) AS free,
           toFloat64(assumeNotNull(process_memory)) AS bytes,
           floor((s + {patience} * 6) / ({patience} * 2)) AS third
    FROM global.system.gpu
    GLOBAL ALL LEFT JOIN (SELECT host, pid, min(timestamp_ns) AS first_ns FROM global.python.torch_steps
                   WHERE timestamp > now() - toUInt32({patience} * 6) GROUP BY host, pid) AS begun USING host, pid
    WHERE timestamp > now() - toUInt32({patience} * 6) AND isNotNull(process_memory) AND timestamp_ns > first_ns
  )
  GROUP BY host, pid, rank, device HAVING count() >= 9
)
WHERE seconds >= {patience} * 3 AND rate > 0 AND fit * fit > 0.85
  AND last - first > greatest(33554432., first / 20)
  AND b - a > 0.15 * (last - first) AND c - b > 0.15 * (last - first)
