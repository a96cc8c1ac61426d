import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ensurePythonEnv } from '../../../node-runtime/environments/python-env.ts'
import { runProgram } from '../../../platform/processes/run-program.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const RUNTIME = join(import.meta.dirname, '..', '..', '..', 'node-runtime', 'environments')
const LOCK = join(RUNTIME, 'python', 'tabular', 'requirements.lock')

/** A folder with one small environment, locked like the real one, and an empty cache. */
async function smallEnvironment(folder: string): Promise<{ cacheDir: string; locksDir: string }> {
  const lock = await readFile(LOCK, 'utf8')
  const [h11 = ''] = /^h11==(.*\n)(\s+--hash.*\n?)+/m.exec(lock) ?? []
  assert.match(h11, /--hash=sha256:/)
  await mkdir(join(folder, 'locks', 'small'), { recursive: true })
  await writeFile(join(folder, 'locks', 'small', 'requirements.lock'), h11)
  return { cacheDir: join(folder, 'cache'), locksDir: join(folder, 'locks') }
}

/** Creates the environment in a separate process. */
function inAnotherProcess(options: object): ReturnType<typeof spawn> {
  const program = `
    const { ensurePythonEnv } = await import(${JSON.stringify(join(RUNTIME, 'python-env.ts'))})
    await ensurePythonEnv('small', { ...${JSON.stringify(options)}, log: console.log })`
  return spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

describe('a locked Python environment', () => {
  it('is created once for many callers, even after one was killed halfway', async () => {
    using folder = temporaryFolder()
    const options = await smallEnvironment(folder.path)
    const victim = inAnotherProcess(options)
    await once(victim.stdout ?? victim, 'data')
    victim.kill('SIGKILL')
    await once(victim, 'exit')

    const logLines: string[] = []
    const log = (line: string): void => void logLines.push(line)
    const other = inAnotherProcess(options)
    const otherExit = once(other, 'exit')
    const envs = await Promise.all([1, 2, 3].map(() => ensurePythonEnv('small', { ...options, log })))
    const [otherCode] = await otherExit

    assert.equal(otherCode, 0)
    assert.equal(new Set(envs.map(({ directory }) => directory)).size, 1)
    const { stdout } = await runProgram(envs[0]?.python ?? '', ['-c', 'import h11; print(h11.__name__)'])
    assert.equal(stdout.trim(), 'h11')
    const [name, ...others] = await readdir(join(options.cacheDir, 'python'))
    assert.match(name ?? '', /^small-[0-9a-f]{16}$/)
    assert.deepEqual(others, [])
    const compiled = await readdir(join(envs[0]?.directory ?? '', 'lib'), { recursive: true })
    assert.ok(compiled.some((file) => /h11\/__pycache__\/.*\.pyc$/.test(file)))
  })

  it('is re-created when its interpreter is gone', async () => {
    using folder = temporaryFolder()
    const options = await smallEnvironment(folder.path)
    const logLines: string[] = []
    const log = (line: string): void => void logLines.push(line)
    const { python } = await ensurePythonEnv('small', { ...options, log })
    await rm(python)

    await ensurePythonEnv('small', { ...options, log })
    await ensurePythonEnv('small', { ...options, log })

    assert.equal(logLines.filter((line) => line.includes('ready after')).length, 2)
  })

  it('reports what is missing when no usable Python exists', async () => {
    using folder = temporaryFolder()
    const options = { ...(await smallEnvironment(folder.path)), log: () => {} }
    const old = join(folder.path, 'old-python')
    await writeFile(old, '#!/bin/sh\necho 3 8 /usr/bin/python3.8\n', { mode: 0o755 })

    await assert.rejects(
      ensurePythonEnv('small', { ...options, basePython: old }),
      /Python 3\.10 or newer with its venv module is needed on PATH\. Found: .*old-python is 3\.8/,
    )
    await assert.rejects(
      ensurePythonEnv('small', { ...options, basePython: '/nowhere/python3' }),
      /No Python was found/,
    )
    await assert.rejects(ensurePythonEnv('missing', options), /no locked Python environment named missing/)
  })

  it('is created with a Python that its project allows, not with the first one found', async () => {
    using folder = temporaryFolder()
    const options = await smallEnvironment(folder.path)
    await writeFile(join(options.locksDir, 'small', 'pyproject.toml'), 'requires-python = ">=3.11"\n')
    for (const [name, version] of [
      ['python3', '3 10'],
      ['python3.12', '3 12'],
    ] as const) {
      const says = `#!/bin/sh\n[ "$1" = -c ] && echo ${version} "$0"\n`
      await writeFile(join(folder.path, name), says, { mode: 0o755 })
    }
    const { PATH } = process.env
    const logLines: string[] = []
    try {
      process.env['PATH'] = folder.path
      const made = ensurePythonEnv('small', { ...options, log: (line) => void logLines.push(line) })
      await assert.rejects(made, /python3\.12 -m venv .*failed/)
    } finally {
      process.env['PATH'] = PATH
    }

    assert.match(logLines.join('\n'), /creating it with .*\/python3\.12 /)
  })

  it('is locked by hash and names no package index', async () => {
    const lock = await readFile(LOCK, 'utf8')

    assert.doesNotMatch(lock, /:\/\/|--index|--find-links/)
    const packages = lock.split(/\n(?=\S)/).filter((entry) => entry.includes('=='))
    assert.ok(packages.length > 10)
    for (const entry of packages) assert.match(entry, /--hash=sha256:[0-9a-f]{64}/)
  })
})
