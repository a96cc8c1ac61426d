import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, mkdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { request } from 'undici'
import type { Hearth } from '../../client/index.ts'
import type { DownloadUrls } from '../../schemas/training-run.ts'
import { CliError } from '../cli-error.ts'
import { transferLine } from '../transfer-line.ts'

type Download = DownloadUrls['download_urls'][number]

/** Downloads the files of a run to a folder. Skips files whose digest already matches. */
export async function pullRun(
  h: Hearth,
  runId: string,
  folder: string,
): Promise<{ path: string; isNew: boolean }[]> {
  const { download_urls: files } = await h.runs.downloadUrls(runId)
  const pulled: { path: string; isNew: boolean }[] = []
  for (const file of files) {
    const path = placeBelow(folder, file.filename)
    const isNew = !(await isThere(file, path))
    if (isNew) await pull(file, path)
    pulled.push({ path, isNew })
  }
  return pulled
}

/** Compares digests, because runs of one config produce files with the same names and sizes. */
async function isThere({ size_bytes, sha256 }: Download, path: string): Promise<boolean> {
  if (sha256 === undefined || statSync(path, { throwIfNoEntry: false })?.size !== size_bytes) return false
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex') === sha256
}

/** Returns the target path of a file; rejects names that escape the folder. */
function placeBelow(folder: string, name: string): string {
  const root = resolve(folder)
  const path = join(root, name)
  const inside = relative(root, path)
  if (inside !== '' && !inside.startsWith('..')) return path
  throw new CliError(
    `the platform returned a file name outside the folder: ${JSON.stringify(name)}; the file was not written`,
  )
}

async function pull(
  { filename, size_bytes: total, sha256, download_url: url }: Download,
  path: string,
): Promise<void> {
  mkdirSync(dirname(path), { recursive: true })
  const { statusCode, body } = await request(url)
  if (statusCode !== 200) {
    await body.dump()
    throw new CliError(`${filename} cannot be downloaded (${statusCode}); repeat the command to retry`)
  }
  const tell = transferLine(filename)
  const hash = createHash('sha256')
  let sent = 0
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      sent += chunk.length
      hash.update(chunk)
      tell({ sent, total })
      done(null, chunk)
    },
  })
  // Download to a temporary name, so an existing file is always complete.
  const part = `${path}.part`
  try {
    await pipeline(body, counted, createWriteStream(part))
    if (sent !== total)
      throw new CliError(
        `the download of ${filename} stopped after ${sent} of ${total} bytes; repeat the command to retry`,
      )
    if (sha256 !== undefined && hash.digest('hex') !== sha256)
      throw new CliError(`${filename} arrived with the wrong digest; repeat the command to retry`)
    renameSync(part, path)
  } finally {
    rmSync(part, { force: true })
  }
}
