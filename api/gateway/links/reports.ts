import type { Static, TSchema } from 'typebox'
import * as jobRecordRepository from '../../../db/repositories/training/job-records.ts'
import { ApiError } from '../../../domain/errors.ts'
import { isStorable } from '../../../domain/storable-text.ts'
import { isCanonicalUuid } from '../../../domain/uuid.ts'
import { type Frame, LinkProtocolError, parseJson } from '../../../platform/link/codec.ts'
import { HelloMeta, type LogEntry, type MetricEntry, StateBody } from '../../../schemas/nodes/link.ts'
import { EngineFault, NodeInventory, NodeModel, ProcessMemory } from '../../../schemas/nodes/node.ts'
import { jsonCheck } from '../../http/validate.ts'
import { checkFrameJson } from './frame-weight.ts'

/**
 * Parses and validates a node's message. Every gateway and worker relies on reports to place work, so a message that
 * breaks the schema (from another version or a hostile node) may cost that node its link but must affect nothing else.
 */
const readerOf = <S extends TSchema>(schema: S) => {
  const check = jsonCheck('body', schema)
  return ({ body }: Pick<Frame, 'body'>): Static<S> => {
    checkFrameJson(body)
    try {
      return check(parseJson(body), true) as Static<S>
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause
      throw new LinkProtocolError(`malformed report: ${cause.message}`, { cause })
    }
  }
}

/** The maximum number of models per node that we pass on to placement, other gateways and workers. */
export const MAX_MODELS = 1_000
/** The maximum number of models per node that are compared with the deleted ones. */
const MAX_REPORTED = 5_000
const MAX_ENTRIES = 2_000
const MAX_NAME = 300
const MAX_ERROR = 2_000
const MAX_MESSAGE = 16 * 1024
const MAX_INT4 = 2_147_483_647
/** The largest log line number of an attempt; the platform's own lines come after it. */
const MAX_LINES = jobRecordRepository.AFTER_NODE_SEQ - 1
const CUT = ' [cut]'

/** Reads the body of a `state` or `progress` frame. */
export const readState = readerOf(StateBody)
/** Reads the body of a node's `hello`. */
export const readHello = readerOf(HelloMeta)

/**
 * Reads the lines of a `log` frame. Drops everything else, because the node would resend it forever. Truncates long
 * lines.
 */
export const readLogs = (frame: Pick<Frame, 'body'>): LogEntry[] =>
  entriesOf(frame)
    .filter(
      (entry): entry is LogEntry =>
        isOfJob(entry) && isCount(entry.seq, MAX_LINES) && typeof entry.message === 'string',
    )
    .map((entry) => ({ ...entry, message: cut(entry.message, MAX_MESSAGE) }))

/** Reads the valid losses of a `metric` frame. */
export const readMetrics = (frame: Pick<Frame, 'body'>): MetricEntry[] =>
  entriesOf(frame).filter(
    (entry): entry is MetricEntry =>
      isOfJob(entry) && isCount(entry.epoch) && MEASURES.every((name) => isLoss(entry[name] ?? null)),
  )

function entriesOf({ body }: Pick<Frame, 'body'>): Partial<Record<string, unknown>>[] {
  checkFrameJson(body)
  const entries = parseJson<unknown>(body)
  if (!Array.isArray(entries)) throw new LinkProtocolError('the batch is not a list')
  return entries
    .slice(0, MAX_ENTRIES)
    .filter((entry): entry is Partial<Record<string, unknown>> => typeof entry === 'object' && entry !== null)
}

const isOfJob = ({ job_id, attempt, at }: Partial<Record<string, unknown>>): boolean =>
  typeof job_id === 'string' &&
  isCanonicalUuid(job_id) &&
  isCount(attempt) &&
  typeof at === 'string' &&
  isTime(at)
const isCount = (value: unknown, most = MAX_INT4): boolean =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most
const MEASURES = ['train_loss', 'val_loss', 'eval_loss', 'eval_perplexity'] as const
const isLoss = (value: unknown): boolean => value === null || typeof value === 'number'
const isTime = (text: string): boolean => text.length <= 40 && !Number.isNaN(Date.parse(text))

/** Returns the inventory fields that this version knows, with bounded text lengths. */
export function boundedInventory(inventory: NodeInventory): NodeInventory {
  const { gpus, profiles, served_profiles, platform, version, ...known } = pick(inventory, INVENTORY_MEMBERS)
  const isShortName = ({ length }: string) => length <= MAX_NAME
  return {
    ...known,
    gpus: gpus.map(({ name, memory_mb }) => ({ name: name.slice(0, MAX_NAME), memory_mb })),
    profiles: profiles.filter(isShortName),
    ...(served_profiles && { served_profiles: served_profiles.filter(isShortName) }),
    platform: platform.slice(0, MAX_NAME),
    version: version.slice(0, MAX_NAME),
  }
}

/**
 * Returns whether a model can have this key. An invalid key would break SQL statements that cover all nodes' models.
 */
const isModelKey = (key: string): boolean => key.length <= MAX_NAME && isStorable(key)

/** Returns the keys of the models in a report, to be compared with those of deleted models. */
export const reportedKeys = (models: readonly NodeModel[]): string[] =>
  models
    .slice(0, MAX_REPORTED)
    .map(({ model_key }) => model_key)
    .filter(isModelKey)

/** Returns at most `MAX_MODELS` models of a report; models that are only on the node's disk are dropped first. */
export function boundedModels(models: readonly NodeModel[]): NodeModel[] {
  const named = models.filter(({ model_key }) => isModelKey(model_key))
  if (named.length <= MAX_MODELS) return named.map(boundedModel)
  const isOnDisk = ({ state, asleep }: NodeModel) => (state === 'evicted' && !asleep) || state === 'cold'
  return named
    .toSorted((a, b) => Number(isOnDisk(a)) - Number(isOnDisk(b)))
    .slice(0, MAX_MODELS)
    .map(boundedModel)
}

function boundedModel(model: NodeModel): NodeModel {
  const known = pick(model, MODEL_MEMBERS)
  const { error, engine_fault } = known
  if (isShort(error) && !engine_fault) return known
  return {
    ...known,
    ...(error !== undefined && { error: cut(error, MAX_ERROR) }),
    ...(engine_fault && {
      engine_fault: { ...pick(engine_fault, FAULT_MEMBERS), error: cut(engine_fault.error, MAX_ERROR) },
    }),
  }
}

/** Returns the measured memory of runs, and of the models that we pass on. */
export function boundedProcesses(
  processes: readonly ProcessMemory[],
  models: readonly NodeModel[],
): ProcessMemory[] {
  const keys = new Set(models.map(({ model_key }) => model_key))
  return processes
    .filter(({ model_key }) => model_key === undefined || keys.has(model_key))
    .map((one) => pick(one, PROCESS_MEMBERS))
}

const isShort = (text = ''): boolean => text.length <= MAX_ERROR / 4

const INVENTORY_MEMBERS: ReadonlySet<string> = new Set(Object.keys(NodeInventory.properties))
const MODEL_MEMBERS: ReadonlySet<string> = new Set(Object.keys(NodeModel.properties))
const FAULT_MEMBERS: ReadonlySet<string> = new Set(Object.keys(EngineFault.properties))
const PROCESS_MEMBERS: ReadonlySet<string> = new Set(Object.keys(ProcessMemory.properties))

/** Drops fields that this version doesn't know, because nothing limits their size. */
function pick<T extends object>(value: T, members: ReadonlySet<string>): T {
  const names = Object.keys(value)
  if (names.every((name) => members.has(name))) return value
  return Object.fromEntries(Object.entries(value).filter(([name]) => members.has(name))) as T
}

/** Truncates a string to at most `bytes` bytes of UTF-8 and marks the cut. */
function cut(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text
  const most = Buffer.from(text.slice(0, bytes)).subarray(0, bytes - CUT.length)
  return most.toString().replace(/\uFFFD$/, '') + CUT
}
