-- class: gpu_idle
-- about: A GPU has nothing to do for most of a trace.
-- Of the newest profile in a trace of torch.profiler, whose ranks have no process: more than half of the time from
-- the first to the last work of a device. Shorter than 10 ms is no training.
WITH newest AS (SELECT host, pid, max(profile) AS profile FROM global.gpu.kernels WHERE pid < 0 GROUP BY host, pid)
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END AS ranks, [pid] AS pids, host, 'warning' AS severity,
       'GPU ' || device || ' had nothing to do for ' || round(idle_share * 100) || ' % of '
       || round(span_us / 1000) || ' ms: what it was given on the CPU came too late' AS evidence, '' AS next
FROM global.gpu.utilization JOIN newest USING (host, pid, profile)
WHERE idle_share > 0.5 AND span_us > 10000
