import { type Kysely, sql } from 'kysely'
import { bucketStart, MEMORY_WINDOWS, type MemoryWindow } from '../../../domain/placement/memory-windows.ts'
import type { NodeMemory } from '../../../schemas/nodes/node-memory.ts'
import type { Database } from '../../tables.ts'

/** The memory of a node, model server or run in one bucket, as one gateway saw it. */
export interface MemoryBucket {
  nodeId: string
  window: MemoryWindow
  /** When the bucket begins, in epoch milliseconds. */
  at: number
  kind: 'node' | 'server' | 'run'
  key: string
  samples: number
  ramAvgMb: number | null
  ramMaxMb: number | null
  vramAvgMb: number | null
  vramMaxMb: number | null
  reservedMaxMb: number | null
  totalMb: number | null
}

const iso = (ms: number): string => new Date(ms).toISOString()

/**
 * Stores buckets of many nodes in one statement. A gateway may write a bucket again with more samples; a write with no
 * more samples than the stored one changes nothing, so a write may be repeated.
 */
export async function saveMemoryBuckets(
  db: Kysely<Database>,
  gatewayId: string,
  buckets: readonly MemoryBucket[],
): Promise<void> {
  const column = <T>(read: (bucket: MemoryBucket) => T): T[] => buckets.map(read)
  await sql`
    insert into node_memory (node_id, bucket_s, bucket_at, kind, key, gateway_id, samples, ram_avg_mb, ram_max_mb,
      vram_avg_mb, vram_max_mb, reserved_max_mb, total_mb, expires_at)
    select given.node_id, bucket_s, bucket_at, kind, key, ${gatewayId}::uuid, samples, ram_avg_mb, ram_max_mb,
      vram_avg_mb, vram_max_mb, reserved_max_mb, total_mb, bucket_at + make_interval(secs => keep_s)
    from unnest(
      ${column(({ nodeId }) => nodeId)}::uuid[],
      ${column(({ window }) => MEMORY_WINDOWS[window].bucketS)}::int[],
      ${column(({ window }) => MEMORY_WINDOWS[window].keepS)}::int[],
      ${column(({ at }) => iso(at))}::timestamptz[],
      ${column(({ kind }) => kind)}::text[],
      ${column(({ key }) => key)}::text[],
      ${column(({ samples }) => samples)}::int[],
      ${column(({ ramAvgMb }) => ramAvgMb)}::int[],
      ${column(({ ramMaxMb }) => ramMaxMb)}::int[],
      ${column(({ vramAvgMb }) => vramAvgMb)}::int[],
      ${column(({ vramMaxMb }) => vramMaxMb)}::int[],
      ${column(({ reservedMaxMb }) => reservedMaxMb)}::int[],
      ${column(({ totalMb }) => totalMb)}::int[]
    ) as given(node_id, bucket_s, keep_s, bucket_at, kind, key, samples, ram_avg_mb, ram_max_mb, vram_avg_mb,
      vram_max_mb, reserved_max_mb, total_mb)
    join node on node.id = given.node_id and node.status <> 'removed'
    on conflict (node_id, bucket_s, bucket_at, kind, key, gateway_id) do update
      set samples = excluded.samples, ram_avg_mb = excluded.ram_avg_mb, vram_avg_mb = excluded.vram_avg_mb,
        ram_max_mb = greatest(node_memory.ram_max_mb, excluded.ram_max_mb),
        vram_max_mb = greatest(node_memory.vram_max_mb, excluded.vram_max_mb),
        reserved_max_mb = greatest(node_memory.reserved_max_mb, excluded.reserved_max_mb), total_mb = excluded.total_mb
      where node_memory.samples < excluded.samples
  `.execute(db)
}

/** The maximum number of model servers and runs in a response. */
const MAX_PROCESSES = 50

/** The memory of a node, or of one of its model servers or runs, over time. */
export interface MemorySeries {
  kind: MemoryBucket['kind']
  key: string
  /** The name of the model version or run. */
  name: string | null
  points: NodeMemory['node']
  /** How many model servers and runs there are, including those that are not returned. */
  processes: number
}

/** Returns the query for a node's memory: first the node itself, then its processes with the highest peaks. */
export const memorySeriesQuery = (nodeId: string, window: MemoryWindow, now: Date) => {
  const { bucketS, windowS } = MEMORY_WINDOWS[window]
  const since = iso(bucketStart(now.getTime() - windowS * 1_000, bucketS))
  return sql<MemorySeries>`
    with point as (
      select kind, key, bucket_at, max(ram_max_mb) as ram_max_mb, max(vram_max_mb) as vram_max_mb,
        max(reserved_max_mb) as reserved_max_mb, max(total_mb) as total_mb,
        ${averageOf('ram_avg_mb')} as ram_avg_mb, ${averageOf('vram_avg_mb')} as vram_avg_mb
      from node_memory
      where node_id = ${nodeId} and bucket_s = ${bucketS} and bucket_at >= ${since}::timestamptz
      group by kind, key, bucket_at
    ), series as (
      select kind, key, max(greatest(ram_max_mb, vram_max_mb)) as peak_mb,
        jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
          'at', to_char(bucket_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
          'ram_avg_mb', ram_avg_mb, 'ram_max_mb', ram_max_mb, 'vram_avg_mb', vram_avg_mb, 'vram_max_mb', vram_max_mb,
          'reserved_max_mb', reserved_max_mb, 'total_mb', total_mb
        )) order by bucket_at) as points
      from point group by kind, key
    ), ranked as (
      select series.*, row_number() over (order by kind <> 'node', peak_mb desc nulls last, kind, key) as place,
        (count(*) filter (where kind <> 'node') over ())::int as processes
      from series
    )
    select kind, key, points, processes, case kind
      when 'server' then (select name from model_version where model_key = ranked.key)
      when 'run' then (select job_name from training_run where id = ranked.key::uuid) end as name
    from ranked where kind = 'node' or place <= ${MAX_PROCESSES + 1}
    order by place`
}

/** The average of several gateways' rows, weighted by their samples. */
const averageOf = (column: string) => sql`
  round(sum(${sql.ref(column)}::float8 * samples) / sum(samples) filter (where ${sql.ref(column)} is not null))::int`

/** Returns the memory of a node and its processes in the window that ends now. */
export async function readMemorySeries(
  db: Kysely<Database>,
  nodeId: string,
  { window, now }: { window: MemoryWindow; now: Date },
): Promise<MemorySeries[]> {
  const { rows } = await memorySeriesQuery(nodeId, window, now).execute(db)
  return rows
}
