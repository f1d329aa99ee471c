-- class: gpu_fault
-- about: A GPU, or the kernel in its name, reports errors: it is lost, memory fails, an Xid, links that are down.
-- Once for each device and process. What was there before the target came is no news: counts that grow in the
-- last six times {patience} seconds, and states that hold, are told; of the kernel's lines those of the last
-- {window} seconds that name a device which the target uses, or the target itself. Xid 13, 31, 43 and 45 are errors of the
-- program (a wrong address, a channel that was removed), and are told as such.
WITH recent AS (
  SELECT * FROM global.gpu.health WHERE timestamp > now() - to_seconds({patience} * 6)
),
device AS (
  SELECT host, pid, rank, vendor, device, any_value(name) AS name, any_value(pci) AS pci,
         -- 00000000:65:00.0, 0000:65:00.0 and 0000:65:00 are the same
         right(split_part(lower(any_value(pci)), '.', 1), 10) AS address,
         arg_max(fault, timestamp) AS last_fault,
         max(timestamp) FILTER (fault IS NULL) AS last_well, max(timestamp) FILTER (fault IS NOT NULL) AS last_ill,
         max(ecc_uncorrected) - min(ecc_uncorrected) AS new_uncorrected,
         max(ecc_corrected) - min(ecc_corrected) AS new_corrected,
         max(retired_pages) - min(retired_pages) AS new_retired,
         max(remapped_rows_uncorrected) - min(remapped_rows_uncorrected) AS new_remapped,
         bool_or(remap_failed) AS remap_failed,
         max(link_errors) - min(link_errors) AS new_link_errors,
         arg_max(links, timestamp) AS links, arg_max(links_active, timestamp) AS links_active,
         max(links_active) AS most_links,
         arg_max(pcie_width, timestamp) AS pcie_width, max(pcie_width_max) AS pcie_width_max,
         max(pcie_replays) - min(pcie_replays) AS new_replays,
         min(epoch_ns(timestamp)) FILTER (fault IS NOT NULL) AS since_ns
  FROM recent GROUP BY host, pid, rank, vendor, device
),
-- What happened once is told for longer.
told AS (
  SELECT host, pid, rank, device, any_value(name) AS name, arg_max(xid, timestamp) AS xid, max(epoch_ns(timestamp)) AS since_ns
  FROM global.gpu.health WHERE timestamp > now() - to_seconds({window}) AND xid IS NOT NULL GROUP BY host, pid, rank, device
),
said AS (
  SELECT host, pid, rank, device, name, since_ns, true AS is_error, 1 AS place, last_fault AS text FROM device
  WHERE last_ill IS NOT NULL AND (last_well IS NULL OR last_ill > last_well)
  UNION ALL
  SELECT host, pid, rank, device, name, since_ns, xid NOT IN (13, 31, 43, 45), 2,
         'Xid ' || xid || CASE xid WHEN 79 THEN ' (the GPU has fallen off the bus)' WHEN 48 THEN ' (memory error, not corrected)'
         WHEN 74 THEN ' (NVLink)' WHEN 94 THEN ' (memory error, contained)' WHEN 95 THEN ' (memory error, not contained)'
         WHEN 13 THEN ' (error in a kernel of the program)' WHEN 31 THEN ' (wrong address in a kernel of the program)'
         WHEN 119 THEN ' (its firmware does not answer)' ELSE '' END
  FROM told
  UNION ALL
  SELECT host, pid, rank, device, name, since_ns, true, 3, new_uncorrected || ' new memory errors that were not corrected'
  FROM device WHERE new_uncorrected > 0
  UNION ALL
  SELECT host, pid, rank, device, name, since_ns, true, 4, 'memory rows could not be replaced' FROM device WHERE remap_failed
  UNION ALL
  SELECT host, pid, rank, device, name, since_ns, false, 5,
         coalesce(new_remapped, 0) + coalesce(new_retired, 0) || ' parts of its memory were just retired'
  FROM device WHERE coalesce(new_remapped, 0) + coalesce(new_retired, 0) > 0
  UNION ALL
  SELECT host, pid, rank, device, name, since_ns, false, 6, new_corrected || ' memory errors corrected in a short time'
  FROM device WHERE new_corrected >= 100
  UNION ALL
  SELECT host, pid, rank, device, name, since_ns, true, 7, most_links - links_active || ' NVLinks went down (' || links_active
         || ' of ' || links || ' are up)'
  FROM device WHERE links_active < most_links
  UNION ALL
  SELECT host, pid, rank, device, name, since_ns, false, 8, new_link_errors || ' new errors on its NVLinks'
  FROM device WHERE new_link_errors >= 10
  UNION ALL
  SELECT host, pid, rank, device, name, since_ns, false, 9, 'PCI Express runs on ' || pcie_width || ' of ' || pcie_width_max || ' lanes'
  FROM device WHERE pcie_width < pcie_width_max
  UNION ALL
  SELECT host, pid, rank, device, name, since_ns, false, 10, new_replays || ' packets on PCI Express were sent again'
  FROM device WHERE new_replays >= 100
  UNION ALL
  -- Not what NVML told already. A line without a process is about the device, so about all who use it.
  SELECT d.host, d.pid, d.rank, d.device, d.name, epoch_ns(k.timestamp), k.code IS NULL OR k.code NOT IN (13, 31, 43, 45), 11,
         'the kernel says: ' || k.message
  FROM global.system.kernel_log AS k JOIN device AS d ON d.host = k.host
   AND d.address = left(lower(k.pci), 10)
  WHERE k.kind IN ('xid', 'nvlink', 'gpu') AND k.timestamp > now() - to_seconds({window})
    AND (k.pid IS NULL OR k.pid = d.pid) AND NOT EXISTS (SELECT 1 FROM told AS t WHERE t.host = d.host AND t.pid = d.pid AND t.device = d.device AND t.xid = k.code)
    AND k.level IN ('emergency', 'alert', 'critical', 'error', 'warning')
  QUALIFY row_number() OVER (PARTITION BY d.host, d.pid, d.device ORDER BY k.timestamp DESC) = 1
)
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END AS ranks, [pid] AS pids, host,
       CASE WHEN bool_or(is_error) THEN 'error' ELSE 'warning' END AS severity, min(since_ns) AS since_ns,
       coalesce('GPU ' || device || ' (' || any_value(name) || '): ', '') || string_agg(text, '; ' ORDER BY place) AS evidence,
       'probing -t ' || pid || ' query "SELECT * FROM gpu.health ORDER BY timestamp DESC LIMIT 5"' AS next
FROM said GROUP BY host, pid, rank, device
