import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

// `npm run bench:all -- --once [names]` runs every bench for one short round, one after the other, to check that it
// works; the figures are meaningless. `--imports` only loads the imports of each bench, which takes a few seconds in
// total.

const ROOT = join(import.meta.dirname, '..')
/** The exit code of a bench that needs something this machine lacks. */
const LACKING = 2
const TIMEOUT_MS = 20 * 60_000

/**
 * Arguments that make one short round even shorter, for benches that accept smaller inputs than `HEARTH_BENCH_ONCE`
 * sets.
 */
const SHORT: Readonly<Record<string, readonly string[]>> = {
  batching: ['--rounds', '1', '--tokens', '8', '--chats', '2'],
  copies: ['--clients', '40', '--seconds', '10', '--idle', '5'],
  console: ['--minutes', '0.2', '--seconds', '5'],
  generation: ['--rounds', '1', '--steps', '2'],
  gpu: ['--scale', 'tiny'],
  handover: ['--rounds', '1', '--tokens', '256'],
  merge: ['--pairs', '1', '--only', 'slerp'],
  neighbour: ['log lines'],
  speech: ['--rounds', '1'],
}

/** Returns the benches in package.json: their files by name. */
function benches(): Map<string, string> {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  return new Map(
    Object.entries(scripts).flatMap(([script, command]) => {
      const [, name] = /^bench:(\w[\w-]*)$/.exec(script) ?? []
      const [, file] = /^node (bench\/[\w-]+\.ts)$/.exec(command) ?? []
      return name !== undefined && file !== undefined ? [[name, file] as const] : []
    }),
  )
}

/** Loads all imports of a bench without running it; throws if an import is missing. */
async function loadImports(file: string): Promise<void> {
  const url = pathToFileURL(join(ROOT, file)).href
  const loaded = new Error(`${file} is loaded`)
  const key = Symbol.for('hearth.bench.loaded')
  Object.assign(globalThis, { [key]: loaded })
  const hooks = registerHooks({
    load(at, context, next) {
      const module = next(at, context)
      if (at !== url || !module.source) return module
      // Imports are loaded before the first statement runs.
      const stop = `throw globalThis[Symbol.for('hearth.bench.loaded')]\n`
      const { source } = module
      const text = typeof source === 'string' ? source : new TextDecoder().decode(source)
      return { ...module, source: stop + text }
    },
  })
  try {
    await import(url)
  } catch (err) {
    if (err !== loaded) throw err
  } finally {
    hooks.deregister()
  }
}

/** Runs a bench for one round; returns how it ended. */
function runOnce(name: string, file: string): 'works' | 'lacks' | 'fails' {
  const { status, error } = spawnSync(process.execPath, [file, ...(SHORT[name] ?? [])], {
    cwd: ROOT,
    env: { ...process.env, HEARTH_BENCH_ONCE: '1' },
    stdio: 'inherit',
    timeout: TIMEOUT_MS,
  })
  if (error) console.error(error.message)
  if (status === LACKING) return 'lacks'
  return status === 0 ? 'works' : 'fails'
}

const { values, positionals } = parseArgs({
  options: { once: { type: 'boolean', default: false }, imports: { type: 'boolean', default: false } },
  allowPositionals: true,
})
if (values.once === values.imports) throw new Error('pass --once or --imports')
const all = benches()
const unknown = positionals.filter((name) => !all.has(name))
if (unknown.length > 0) throw new Error(`no bench is called ${unknown.join(', ')}`)

const ends: string[] = []
for (const [name, file] of all) {
  if (positionals.length > 0 && !positionals.includes(name)) continue
  const began = performance.now()
  let end: string
  if (values.once) {
    console.log(`\nbench:${name}`)
    end = runOnce(name, file)
  } else {
    end = await loadImports(file).then(
      () => 'loads',
      (err: unknown) => {
        console.error(`bench:${name}: ${String(err)}`)
        return 'fails'
      },
    )
  }
  ends.push(`bench:${name.padEnd(14)} ${end.padEnd(6)} ${((performance.now() - began) / 1_000).toFixed(1)} s`)
  if (end === 'fails') process.exitCode = 1
}
console.log(`\n${ends.join('\n')}`)
// An import may keep the process alive.
process.exit()
