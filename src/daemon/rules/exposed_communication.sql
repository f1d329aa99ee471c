-- class: exposed_communication
-- about: A GPU does nothing but communicate for much of a trace.
-- Of the newest profile in a trace of torch.profiler, whose ranks have no process: more than a fifth of the time
-- from the first to the last work of a device. Shorter than 10 ms is no training.
WITH newest AS (SELECT host, pid, max(profile) AS profile FROM global.gpu.kernels WHERE pid < 0 GROUP BY host, pid)
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END AS ranks, [pid] AS pids, host, 'warning' AS severity,
       'GPU ' || device || ' did nothing but communicate for ' || round(exposed_share * 100) || ' % of '
       || round(span_us / 1000) || ' ms; ' || round(100 * overlapped_us / communication_us)
       || ' % of its communication overlapped with computation' AS evidence, '' AS next
FROM global.gpu.utilization JOIN newest USING (host, pid, profile)
WHERE exposed_share > 0.2 AND span_us > 10000
