import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from './run-command.ts'

/** The pictures of `docs/pictures`, with those that tests of the console take of its pages. */
const PICTURES = {
  'console-run.png': 'run-light.png',
  'console-endpoint.png': 'endpoint-form-light.png',
} as const
const TEST = 'test/console/pages.test.ts'
const GREP = 'the pages of single things do neither in light colours'

/** Takes the pictures anew, of the console as it is. */
const folder = mkdtempSync(join(tmpdir(), 'hearth-pictures-'))
try {
  const env = { ...process.env, HEARTH_TEST_PICTURES: folder }
  const ok = await run(['npm', 'test', '--', TEST, '--grep', GREP], { env })
  if (!ok) throw new Error(`${TEST} has failed`)
  mkdirSync('docs/pictures', { recursive: true })
  for (const [name, taken] of Object.entries(PICTURES))
    copyFileSync(join(folder, taken), join('docs/pictures', name))
} finally {
  rmSync(folder, { recursive: true, force: true })
}
