import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { copyFile, link, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { openForeign, type PayloadStore } from '../edges/payload-store.ts'
import type { Payload } from '../edges/payload.ts'
import type { RunningServer } from '../models/server.ts'

/** A payload file in the exchange folder of a model server. Disposing it removes the file. */
export interface ServerFile extends AsyncDisposable {
  readonly name: string
  readonly path: string
}

/** Returns a new file name in a server's exchange folder. */
export function nameFor(server: Pick<RunningServer, 'exchangeDir' | 'profile'>): ServerFile {
  const { exchangeDir, profile } = server
  if (exchangeDir === undefined)
    throw new EdgeError(
      'refused',
      `model servers of the profile ${profile.profile_id} do not exchange payloads`,
    )
  const name = `${randomUUID()}.payload`
  const path = join(exchangeDir, name)
  return { name, path, [Symbol.asyncDispose]: () => rm(path, { force: true }) }
}

/** Passes a payload to a server as a hard link, or as a copy if its folder is on another disk. */
export async function lend(payload: Payload, server: RunningServer): Promise<ServerFile> {
  const file = nameFor(server)
  await link(payload.path, file.path).catch((err: NodeJS.ErrnoException) => {
    if (err.code !== 'EXDEV' && err.code !== 'EPERM') throw err
    return copyFile(payload.path, file.path, constants.COPYFILE_FICLONE)
  })
  return file
}

/** Moves a file that a server has written into the payload store. */
export async function adoptServerFile(
  store: PayloadStore,
  { path }: ServerFile,
  maxBytes: number,
): Promise<Payload> {
  try {
    return await store.adopt(path, { maxBytes })
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code !== 'EXDEV') throw err
  }
  await using file = await openForeign(path)
  const { size } = await file.stat()
  await using writer = await store.write({ sizeBytes: size, maxBytes })
  for await (const chunk of file.createReadStream({ autoClose: false })) await writer.write(chunk as Buffer)
  return await writer.finish()
}
