-- class: gpu_throttled
-- about: A GPU that works is slowed down by heat or by its power supply.
-- For at least half of the looks of the last three times {patience} seconds, while it had something to do. That a GPU runs at
-- its power limit is how most are run, and no finding.
WITH recent AS (
  SELECT host, pid, rank, vendor, device, name, timestamp, is_throttled, throttle_reasons, sm_clock, sm_clock_max, temperature,
         temperature_limit, power
  FROM global.gpu.health WHERE timestamp > now() - to_seconds({patience} * 3) AND is_throttled IS NOT NULL
),
busy AS (
  SELECT host, pid, device, vendor, avg(util_percent) AS util FROM global.system.gpu
  WHERE timestamp > now() - to_seconds({patience} * 3) GROUP BY ALL
),
judged AS (
  SELECT host, pid, rank, vendor, device, any_value(name) AS name, avg(is_throttled::INT) AS share, count(*) AS looks,
         epoch(max(timestamp) - min(timestamp)) AS seconds,
         string_agg(DISTINCT throttle_reasons, '; ') FILTER (is_throttled) AS reasons, median(sm_clock) AS clock,
         max(sm_clock_max) AS clock_max, max(temperature) AS temperature, max(temperature_limit) AS temperature_limit,
         min(epoch_ns(timestamp)) FILTER (is_throttled) AS since_ns
  FROM recent GROUP BY host, pid, rank, vendor, device
)
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END AS ranks, [pid] AS pids, host, 'warning' AS severity, since_ns,
       'GPU ' || device || ' (' || name || ') was throttled for ' || round(100 * share)::BIGINT || ' % of the last ' || round(seconds)::BIGINT
       || ' s: ' || reasons || coalesce('; clock ' || round(clock)::BIGINT || ' of ' || clock_max || ' MHz', '')
       || coalesce('; ' || round(temperature)::BIGINT || ' °C', '')
       || coalesce(' (it slows itself down at ' || round(temperature_limit)::BIGINT || ')', '')
       || coalesce('; busy for ' || round(util)::BIGINT || ' % of the time', '') AS evidence,
       'probing -t ' || pid || ' query "SELECT timestamp, device, throttle_reasons, sm_clock, temperature, power FROM gpu.health'
       || ' ORDER BY timestamp DESC LIMIT 20"' AS next
FROM judged LEFT JOIN busy USING (host, pid, device, vendor)
WHERE looks >= 2 AND share >= 0.5 AND seconds >= {patience} * 0.5 AND coalesce(util, 100) > 20
