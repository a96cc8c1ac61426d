import { type Kysely, sql, type Transaction } from 'kysely'
import { getOrThrow } from '../../../domain/at.ts'
import { type Graph, RUN_INPUT } from '../../../domain/cohorts/graph.ts'
import {
  type Handoff,
  type RegisteredSpace,
  type SpaceEdge,
  type EdgeSpaces,
  spaceHandOver,
  spaceOf,
  valueHandoff,
} from '../../../domain/cohorts/handoffs.ts'
import type { PlanReason } from '../../../schemas/cohorts/plan.ts'
import type { Database } from '../../tables.ts'
import { findEvidence } from './evidence.ts'
import type { StageModels } from './stage-models.ts'
import type { LockedStage } from './stages.ts'

/** How the edges of a graph connect, by `edge_id`, and the reasons why some cannot. */
export interface Handoffs {
  handOvers: Map<string, Handoff>
  reasons: PlanReason[]
}

/** Reads how the edges of a graph connect, with the models of its stages and with each of their fallbacks. */
export async function readHandoffs(
  db: Kysely<Database>,
  { edges, constraints }: Pick<Graph, 'edges' | 'constraints'>,
  { configs, models, fallbacks }: Pick<StageModels, 'configs' | 'models' | 'fallbacks'>,
): Promise<Handoffs> {
  const between = edges.filter(({ space }) => space)
  const others = [...fallbacks.values()].flatMap((all) => all.map(({ version_id }) => version_id))
  const spaces =
    between.length > 0 ? await readSpaces(db, [...new Set([...configs.values(), ...others])]) : new Map()
  const spacesOf = (stage: string): readonly RegisteredSpace[] => spaces.get(configs.get(stage) ?? '') ?? []
  const nameOf = (stage: string) => models.get(stage)?.model_name ?? stage
  const minScore = constraints.min_score
  const result: Handoffs = { handOvers: new Map(), reasons: [] }
  for (const edge of edges) {
    const { edge_id, space, from, to } = edge
    if (!space || from.stage_id === RUN_INPUT) {
      result.handOvers.set(edge_id, valueHandoff(edge))
      continue
    }
    const spaceEdge = { ...edge, space }
    const [source, target] = [spacesOf(from.stage_id), spacesOf(to.stage_id)]
    const endpoints = { source: nameOf(from.stage_id), target: nameOf(to.stage_id) }
    const found = await connect(db, spaceEdge, { source, target, minScore, endpoints })
    if ('code' in found) {
      result.reasons.push(found)
      continue
    }
    result.handOvers.set(edge_id, found)
    for (const side of ['from', 'to'] as const)
      for (const { ref, version_id } of fallbacks.get(edge[side].stage_id) ?? []) {
        const its = spaces.get(version_id) ?? []
        const sides =
          side === 'from'
            ? { source: its, target, endpoints: { ...endpoints, source: ref } }
            : { source, target: its, endpoints: { ...endpoints, target: ref } }
        const instead = insteadOf(found, side, await connect(db, spaceEdge, { ...sides, minScore }), edge_id)
        if ('code' in instead)
          result.reasons.push({
            ...instead,
            message: `${instead.message} (with the fallback "${ref}" of stage "${edge[side].stage_id}")`,
          })
      }
  }
  return result
}

/**
 * Returns, by id, how the hand-overs to and from a stage connect when this version replaces its model; undefined if one
 * of them cannot. Values fit every model.
 */
export async function handoffsWith(
  db: Kysely<Database>,
  { incoming, outgoing }: Pick<LockedStage, 'incoming' | 'outgoing'>,
  versionId: string,
): Promise<Map<string, Handoff> | undefined> {
  const found = new Map<string, Handoff>()
  for (const [side, edges] of [
    ['to', incoming],
    ['from', outgoing],
  ] as const)
    for (const edge of edges) {
      const { id, name: edge_id, source_space_id, target_space_id, min_score } = edge
      if (source_space_id === null || target_space_id === null) continue
      const named = await db
        .selectFrom('model_space')
        .select(['id', 'name', 'version_id'])
        .where('id', 'in', [source_space_id, target_space_id])
        .execute()
      const byId = new Map(named.map((space) => [space.id, space]))
      const [from, to] = [getOrThrow(byId, source_space_id), getOrThrow(byId, target_space_id)]
      const [producer, consumer] = side === 'to' ? [from.version_id, versionId] : [versionId, to.version_id]
      const spaces = await readSpaces(db, [producer, consumer])
      const [source, target] = [spaces.get(producer) ?? [], spaces.get(consumer) ?? []]
      const edgeSpaces = { edge_id, space: { source: from.name, target: to.name } }
      const now = await connect(db, edgeSpaces, { source, target, minScore: min_score })
      const instead = insteadOf({ ...edge, score: null }, side, now, edge_id)
      if ('code' in instead) return undefined
      found.set(id, instead)
    }
  return found
}

/** Changes how hand-overs connect, from their next attempt on. */
export async function reconnectEdges(
  trx: Transaction<Database>,
  handOvers: ReadonlyMap<string, Handoff>,
): Promise<void> {
  for (const [id, { kind: _, score: __, ...connects }] of handOvers)
    await trx.updateTable('cohort_edge').set(connects).where('id', '=', id).execute()
}

/**
 * Checks a hand-over of a fallback. The other side already knows its space, so the space must not change: a fallback
 * may accept another space if active evidence allows it, but it must produce the space of the model that it replaces.
 */
function insteadOf(
  planned: Handoff,
  side: 'from' | 'to',
  now: Handoff | PlanReason,
  edge_id: string,
): Handoff | PlanReason {
  if ('code' in now) return now
  if (now.kind === planned.kind && now.source_fingerprint === planned.source_fingerprint) return now
  const message =
    side === 'from'
      ? `edge "${edge_id}": it hands over values in a different space than the model that it replaces`
      : `edge "${edge_id}": the space of its source has changed`
  return { code: 'space_mismatch', message, edge_id }
}

async function connect(
  db: Kysely<Database>,
  edge: SpaceEdge,
  sides: Omit<EdgeSpaces, 'evidence'>,
): Promise<Handoff | PlanReason> {
  const { source, target } = sides
  const evidence = await evidenceOf(db, [
    spaceOf(edge, source, { name: edge.space.source, side: 'source' }),
    spaceOf(edge, target, { name: edge.space.target, side: 'target' }),
  ])
  return spaceHandOver(edge, { ...sides, evidence })
}

const evidenceOf = (
  db: Kysely<Database>,
  [from, to]: readonly [RegisteredSpace | PlanReason, RegisteredSpace | PlanReason],
) =>
  'code' in from || 'code' in to || from.fingerprint === to.fingerprint
    ? []
    : findEvidence(db, { sourceSpaceId: from.id, targetSpaceId: to.id })

/** Returns the spaces of versions, newest generation first. */
async function readSpaces(
  db: Kysely<Database>,
  versionIds: readonly string[],
): Promise<Map<string, RegisteredSpace[]>> {
  const rows = await db
    .selectFrom('model_space')
    .select([
      'id',
      'version_id',
      'name',
      'role',
      'kind',
      'fingerprint',
      'status',
      sql<string[] | null>`specification->'content_types'`.as('content_types'),
    ])
    .where('version_id', '=', sql<string>`any(${versionIds}::uuid[])`)
    .orderBy('generation', 'desc')
    .execute()
  return Map.groupBy(rows, ({ version_id }) => version_id)
}
