import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from './run-command.ts'

/** The images in `docs/pictures`, and the screenshots from the console test that they are copied from. */
const IMAGES = {
  'console-run.png': 'readme-run.png',
  'console-endpoint.png': 'readme-endpoint.png',
} as const
const TEST = 'test/e2e/console.test.ts'

/** Takes new screenshots of the current console. */
const folder = mkdtempSync(join(tmpdir(), 'hearth-pictures-'))
try {
  const env = { ...process.env, HEARTH_TEST_PICTURES: folder }
  const ok = await run(['npm', 'test', '--', TEST], { env })
  if (!ok) throw new Error(`${TEST} failed`)
  mkdirSync('docs/pictures', { recursive: true })
  for (const [name, taken] of Object.entries(IMAGES))
    copyFileSync(join(folder, taken), join('docs/pictures', name))
} finally {
  rmSync(folder, { recursive: true, force: true })
}
