import { type Kysely, sql } from 'kysely'
import type { CohortHealth } from '../../../schemas/cohorts/health.ts'
import type { Database } from '../../tables.ts'

type CohortCounts = Pick<CohortHealth, 'cohorts' | 'edges' | 'evaluator'> & { reachable: number }

/** Counts an account's cohorts and hand-overs by state, and the evaluator's registrations. */
export async function countCohorts(db: Kysely<Database>, accountId: string): Promise<CohortCounts> {
  const { rows } = await sql<Record<string, string>>`
    with open as materialized (
      select id, status, deadline_at from cohort
      where account_id = ${accountId}::uuid and status not in ('succeeded', 'failed', 'cancelled')
    ), edge as materialized (
      select state, closed, size_bytes, from_stage_id from cohort_edge where cohort_id in (select id from open)
    ), recent as materialized (
      select type from cohort_event join cohort on cohort.id = cohort_event.cohort_id
      where cohort.account_id = ${accountId}::uuid and cohort_event.type in ('edge.failed', 'edge.relayed')
        and cohort_event.created_at > now() - interval '1 hour'
        and cohort_event.data->>'failure' is distinct from 'cancelled'
    )
    select
      (select count(*) from open where status = 'queued') as queued,
      (select count(*) from open where status <> 'queued') as running,
      (select count(*) from open where deadline_at < now() or exists (select from cohort_stage stage
        where stage.cohort_id = open.id and stage.waiting_for is not null
          and stage.status not in ('succeeded', 'failed', 'skipped', 'cancelled'))) as stalled,
      (select count(*) from edge where from_stage_id is not null and not closed and state <> 'consumed') as open,
      (select coalesce(sum(size_bytes), 0) from edge where from_stage_id is not null and not closed) as held_bytes,
      (select count(*) from recent where type = 'edge.failed') as failed_1h,
      (select count(*) from recent where type = 'edge.relayed') as relayed_1h,
      (select count(distinct from_node_id) from edge_rate where samples > 0) as reachable,
      (select count(*) from model_space where status = 'active') as model_spaces,
      (select count(*) from compatibility_evidence where status = 'active' and valid_until > now()) as evidence_active,
      (select count(*) from compatibility_evidence
        where status = 'active' and valid_until between now() and now() + interval '7 days') as evidence_expiring_7d,
      (select count(*) from structured_run where status not in ('registered', 'rejected', 'failed')) as runs_open
  `.execute(db)
  const count = (name: string): number => Number(rows[0]?.[name] ?? 0)
  return {
    cohorts: { queued: count('queued'), running: count('running'), stalled: count('stalled') },
    edges: {
      open: count('open'),
      held_bytes: count('held_bytes'),
      failed_1h: count('failed_1h'),
      relayed_1h: count('relayed_1h'),
    },
    evaluator: {
      model_spaces: count('model_spaces'),
      evidence_active: count('evidence_active'),
      evidence_expiring_7d: count('evidence_expiring_7d'),
      runs_open: count('runs_open'),
    },
    reachable: count('reachable'),
  }
}
