import { type Kysely, sql } from 'kysely'
import { type Graph, RUN_INPUT } from '../../../domain/cohorts/graph.ts'
import {
  type HandOver,
  type KnownSpace,
  spaceHandOver,
  spaceOf,
  valueHandOver,
} from '../../../domain/cohorts/hand-overs.ts'
import type { PlanReason } from '../../../schemas/cohort-plan.ts'
import type { Database } from '../../tables.ts'
import { findEvidence } from './evidence.ts'

/** How the edges of a graph connect, by `edge_id`, and the reasons why some cannot. */
export interface HandOvers {
  handOvers: Map<string, HandOver>
  reasons: PlanReason[]
}

/** Reads how the edges of a graph connect; `versions` are the models of its stages. */
export async function readHandOvers(
  db: Kysely<Database>,
  { edges, constraints }: Pick<Graph, 'edges' | 'constraints'>,
  versions: ReadonlyMap<string, string>,
): Promise<HandOvers> {
  const between = edges.filter(({ space }) => space)
  const spaces = between.length > 0 ? await readSpaces(db, [...new Set(versions.values())]) : new Map()
  const spacesOf = (stage: string): readonly KnownSpace[] => spaces.get(versions.get(stage) ?? '') ?? []
  const result: HandOvers = { handOvers: new Map(), reasons: [] }
  for (const edge of edges) {
    const { edge_id, space, from, to } = edge
    if (!space || from.stage_id === RUN_INPUT) {
      result.handOvers.set(edge_id, valueHandOver(edge))
      continue
    }
    const [source, target] = [spacesOf(from.stage_id), spacesOf(to.stage_id)]
    const evidence = await evidenceOf(db, [
      spaceOf(edge, source, { name: space.source, side: 'source' }),
      spaceOf(edge, target, { name: space.target, side: 'target' }),
    ])
    const found = spaceHandOver(edge, { source, target, evidence, minScore: constraints.min_score })
    if ('code' in found) result.reasons.push(found)
    else result.handOvers.set(edge_id, found)
  }
  return result
}

const evidenceOf = (
  db: Kysely<Database>,
  [from, to]: readonly [KnownSpace | PlanReason, KnownSpace | PlanReason],
) =>
  'code' in from || 'code' in to || from.fingerprint === to.fingerprint
    ? []
    : findEvidence(db, { sourceSpaceId: from.id, targetSpaceId: to.id })

/** Returns the spaces of versions, newest generation first. */
async function readSpaces(
  db: Kysely<Database>,
  versionIds: readonly string[],
): Promise<Map<string, KnownSpace[]>> {
  const rows = await db
    .selectFrom('model_space')
    .select(['id', 'version_id', 'name', 'role', 'kind', 'fingerprint', 'status'])
    .where('version_id', '=', sql<string>`any(${versionIds}::uuid[])`)
    .orderBy('generation', 'desc')
    .execute()
  return Map.groupBy(rows, ({ version_id }) => version_id)
}
