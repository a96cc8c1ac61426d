import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, type Stats, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import type { UploadState } from '../client/index.ts'

/** Identifies an upload: one unchanged file, one dataset name, one platform. */
interface Subject {
  baseUrl: string
  path: string
  info: Pick<Stats, 'size' | 'mtimeMs'>
  name: string
}

/** The state of an unfinished upload, stored so that repeating the command resumes it. */
export class PendingUpload {
  readonly #file: string

  constructor({ baseUrl, path, info, name }: Subject) {
    const state = process.env['XDG_STATE_HOME'] || join(homedir(), '.local', 'state')
    const subject = JSON.stringify([baseUrl, path, info.size, info.mtimeMs, name])
    const digest = createHash('sha256').update(subject).digest('hex').slice(0, 32)
    this.#file = join(state, 'hearth', 'uploads', `${digest}.json`)
  }

  read(): UploadState | undefined {
    try {
      return JSON.parse(readFileSync(this.#file, 'utf8')) as UploadState
    } catch {
      return undefined
    }
  }

  /** Stores the state so that only its owner can read it, because its URL grants write access to the file. */
  keep(state: UploadState): void {
    mkdirSync(dirname(this.#file), { recursive: true, mode: 0o700 })
    writeFileSync(this.#file, JSON.stringify(state), { mode: 0o600 })
  }

  forget(): void {
    rmSync(this.#file, { force: true })
  }
}
