import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const EXAMPLES = [...readFileSync(join(ROOT, 'docs/client.md'), 'utf8').matchAll(/```ts\n(.*?)```/gs)].map(
  ([, text = '']) => text,
)

/** Compiles programs in a project that depends on this package, and returns the compiler output. */
async function compile(programs: readonly string[]): Promise<string> {
  using folder = temporaryFolder()
  const packages = join(folder.path, 'node_modules')
  mkdirSync(packages)
  symlinkSync(ROOT, join(packages, 'hearth'))
  for (const name of ['openai', '@types']) symlinkSync(join(ROOT, 'node_modules', name), join(packages, name))
  writeFileSync(join(folder.path, 'package.json'), '{"type": "module"}')
  const compilerOptions = { types: ['node'], noEmit: true }
  const tsconfig = { extends: join(ROOT, 'tsconfig.json'), compilerOptions, include: ['*.ts'] }
  writeFileSync(join(folder.path, 'tsconfig.json'), JSON.stringify(tsconfig))
  for (const [i, text] of programs.entries()) writeFileSync(join(folder.path, `example-${i}.ts`), text)
  const tsc = join(ROOT, 'node_modules/.bin/tsc')
  const run = promisify(execFile)(tsc, ['-p', folder.path]).catch((err: unknown) => err as { stdout: string })
  return (await run).stdout
}

describe('docs/client.md', () => {
  it('has examples that compile against the package', async () => {
    assert.ok(EXAMPLES.length >= 3)
    assert.equal(await compile(EXAMPLES), '')
  })

  it('documents a client whose types reject values that no route accepts', async () => {
    const [, second = ''] = EXAMPLES
    const wrong = second.replace("status: 'failed'", "status: 'borken'")
    assert.notEqual(wrong, second)

    assert.match(await compile([wrong]), /'"borken"' is not assignable/)
  })
})
