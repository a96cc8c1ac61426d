import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import type { WorkflowHandle } from '@temporalio/client'
import proto, { type temporal } from '@temporalio/proto'

type History = temporal.api.history.v1.IHistory
const { History } = proto.temporal.api.history.v1

const FOLDER = new URL('../../histories/', import.meta.url)
/** Fields that identify the recording machine and don't matter to the workflow. */
const LEFT_OUT = new Set(['identity', 'stackTrace', 'binaryChecksum'])

/** Saves a workflow's history for the replay test if `HEARTH_RECORD_HISTORIES` is set. */
export async function recordHistory(name: string, handle: WorkflowHandle): Promise<void> {
  if (!process.env.HEARTH_RECORD_HISTORIES) return
  await mkdir(FOLDER, { recursive: true })
  const history = JSON.stringify(await handle.fetchHistory())
  await writeFile(new URL(`${name}.json`, FOLDER), `${JSON.stringify(scrub(JSON.parse(history)))}\n`)
}

/** Returns every recorded history with its name. */
export async function readHistories(): Promise<{ name: string; history: History }[]> {
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith('.json')).toSorted()
  return Promise.all(
    names.map(async (name) => ({
      name: name.replace(/\.json$/, ''),
      history: History.fromObject(JSON.parse(await readFile(new URL(name, FOLDER), 'utf8'))),
    })),
  )
}

function scrub(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(scrub)
  if (typeof value !== 'object' || value === null) return value
  const kept = Object.entries(value).filter(([name]) => !LEFT_OUT.has(name))
  return Object.fromEntries(kept.map(([name, inner]) => [name, scrub(inner)]))
}
