import { buffer } from 'node:stream/consumers'
import * as spaceRepository from '../../db/repositories/cohorts/spaces.ts'
import * as nodeModelRepository from '../../db/repositories/nodes/models.ts'
import type { VersionFileRow } from '../../db/tables/models.ts'
import {
  builtInSpaces,
  isSpaceConfig,
  LLAMA_CPP,
  type ModelFacts,
} from '../../domain/cohorts/spaces/built-in-spaces.ts'
import { parseHubKey } from '../../domain/hub/files.ts'
import { GGUF_HEAD_BYTES, readGgufNumbers } from '../../domain/hub/gguf.ts'
import type { PlanRequest } from '../../schemas/cohorts/plan.ts'
import { emit } from '../events.ts'
import type { Services } from '../services.ts'

/** A larger file is not a model configuration. */
const MAX_BYTES = 1024 * 1024

type Parts = Pick<Services, 'db' | 'objects' | 'hub' | 'catalog' | 'log'>

/**
 * Registers the spaces derived from these versions' files. Skips a version whose spaces were registered or revoked
 * before, because evaluators take precedence. If a model's files cannot be read now, the next call retries.
 */
export async function ensureSpaces(services: Parts, versionIds: readonly string[]): Promise<void> {
  const unknown = await spaceRepository.findWithoutSpaces(services.db, versionIds)
  for (const version of unknown) {
    await register(services, version).catch((err: unknown) =>
      emit(services.log, 'spaces.not_derived', { err, model_key: version.model_key }),
    )
  }
}

/** Like `ensureSpaces`, but for one version, in the background. */
export function beginSpaces(services: Parts, { id, model_key }: { id: string; model_key: string }): void {
  void ensureSpaces(services, [id]).catch((err: unknown) =>
    emit(services.log, 'spaces.not_derived', { err, model_key }),
  )
}

/** Like `ensureSpaces`, but for the models of a graph, if any of its edges names a space. */
export async function ensureSpacesOf(
  services: Parts,
  { stages, edges }: Pick<PlanRequest, 'stages' | 'edges'>,
): Promise<void> {
  if (!edges.some(({ space }) => space)) return
  const endpoints = stages.flatMap(({ endpoint_id, fallbacks = [] }) =>
    [endpoint_id ?? [], ...fallbacks].flat(),
  )
  const models = stages.flatMap(({ model_config_id }) => model_config_id ?? [])
  await ensureSpaces(services, await spaceRepository.findVersionsBehind(services.db, { endpoints, models }))
}

async function register(
  services: Parts,
  { id, model_key, runtime_profile }: { id: string; model_key: string; runtime_profile: string },
): Promise<void> {
  const { db, catalog } = services
  const [found, taskType] = await Promise.all([
    nodeModelRepository.findModelFiles(db, model_key),
    nodeModelRepository.findTaskType(db, id),
  ])
  if (!found || taskType === undefined) return
  const { files } = found
  const configs = await Promise.all(
    files
      .filter(({ path, size_bytes }) => isSpaceConfig(taskType, path) && size_bytes <= MAX_BYTES)
      .map(async (file) => [file.path, await readJson(services, file)] as const),
  )
  const framework = catalog.profile(runtime_profile)?.framework
  const spaces = builtInSpaces({
    taskType,
    framework,
    files,
    configs: Object.fromEntries(configs),
    gguf: framework === LLAMA_CPP ? await readHead(services, files) : undefined,
  })
  if (spaces.length === 0) return
  // One model per transaction: two callers with the same models then queue up instead of deadlocking.
  await db.transaction().execute(async (trx) => {
    await spaceRepository.lockModel(trx, id)
    // Another gateway or an evaluator may have registered this model's spaces first.
    if ((await spaceRepository.findWithoutSpaces(trx, [id])).length === 0) return
    await spaceRepository.registerSpaces(trx, {
      versionId: id,
      modelConfigId: id,
      spaces,
      registeredBy: 'platform',
    })
  })
}

/** Reads the header of a model's GGUF file, or of its first split; undefined if there is none. */
async function readHead(services: Parts, files: readonly VersionFileRow[]): Promise<ModelFacts['gguf']> {
  const [first] = files
    .filter(({ path }) => /^(?!.*mmproj).*\.gguf$/i.test(path))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1))
  const head = first && readGgufNumbers(await readStart(services, first, GGUF_HEAD_BYTES))
  return head && { head, sha256: first.sha256 }
}

/** Reads a small file of a model; undefined when it is not JSON. */
async function readJson(services: Parts, file: VersionFileRow): Promise<unknown> {
  const text = (await readStart(services, file, MAX_BYTES)).toString()
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

async function readStart({ objects, hub }: Parts, file: VersionFileRow, most: number): Promise<Buffer> {
  const onHub = parseHubKey(file.object_key)
  const end = most - 1
  const { body } = onHub
    ? await hub.open(onHub.repoId, onHub.revision, onHub.path, { range: `bytes=0-${end}` })
    : await objects.get(file.object_key, { range: { start: 0, end } })
  // A server without range support sends the whole file.
  return (await buffer(body)).subarray(0, most)
}
