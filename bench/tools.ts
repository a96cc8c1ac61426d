import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { toolKey } from '../domain/tools/catalog.ts'
import { findPython } from '../node-runtime/environments/python-env.ts'
import { ContainerDriver } from '../node-runtime/processes/container-driver.ts'
import { ProcessDriver } from '../node-runtime/processes/process-driver.ts'
import { ContainerTools } from '../node-runtime/tools/container-tools.ts'
import type { ToolDriver } from '../node-runtime/tools/driver.ts'
import { machineMounts } from '../node-runtime/tools/machine-root.ts'
import { ProcessTools } from '../node-runtime/tools/process-tools.ts'
import { Tools } from '../node-runtime/tools/tools.ts'
import { loadCatalog } from '../platform/catalog.ts'
import { EgressPolicy } from '../platform/egress/policy.ts'
import { PublicConnections } from '../platform/egress/public-connections.ts'
import { createLogger } from '../platform/log.ts'
import { runProgram } from '../platform/processes/run-program.ts'
import { findEngine } from '../test/support/servers/nodes/container-engine.ts'
import { unlessOnce } from './rounds.ts'

// Measures one-shot tools from input to result: as processes, in containers and pre-started, alternating with raw `runc
// run` of the same program. With --runs 1000, also prints what the runs left behind.

const { values } = parseArgs({ options: { runs: { type: 'string', default: '20' } } })
const RUNS = unlessOnce(Number(values.runs), 2)
const AT_ONCE = 4
/** The current_time tool, which runs on Node in each of these modes. */
const SLUG = 'current_time'
const PROGRAM = join(import.meta.dirname, '..', 'catalog', 'tools', SLUG)

const folder = await mkdtemp(join(tmpdir(), 'hearth-bench-tools-'))
const plain = findPython({ cacheDir: join(folder, 'cache'), log: () => {} })
const stateDir = join(folder, 'node')
const processes = new ProcessDriver({ stateDir, python: () => plain })
const log = createLogger('bench', 'silent')
const { tools: catalog } = loadCatalog()
const stack = new AsyncDisposableStack()

try {
  const ways: [string, () => Promise<unknown>][] = []
  const opened: Tools[] = []
  const add = (name: string, driver: ToolDriver, pool = 0) => {
    const outside = {
      connections: new PublicConnections(new EgressPolicy({ allow: [], block: [] })),
      storage: () => [],
    }
    const tools = new Tools({
      tools: catalog,
      driver,
      workDir: join(folder, name.replaceAll(' ', '-')),
      outside,
      pool,
      log,
    })
    opened.push(tools)
    const input = Buffer.from('{}')
    ways.push([name, () => tools.run(toolKey(SLUG), input, new AbortController().signal)])
  }
  const asProcess = new ProcessTools({ driver: processes, python: () => plain })
  const lack = await asProcess.lack()
  if (lack === undefined) {
    add('process', asProcess)
    add('process waiting', asProcess, AT_ONCE)
  } else console.log(`no processes: ${lack}`)
  const socketPath = await findEngine(stack).catch(() => undefined)
  const containers = socketPath && (await ContainerDriver.connect({ socketPath, stateDir }))
  if (containers) {
    const driver = new ContainerTools({ containers, python: () => plain, image: undefined })
    await driver.lack()
    add('container', driver)
    add('container waiting', driver, AT_ONCE)
  } else console.log('no containers: there is no engine')
  const hasRunc = await runProgram('runc', ['--version']).then(
    () => true,
    () => false,
  )
  if (hasRunc) ways.push(['raw runc run', runcBundle()])
  else console.log('no raw runc run: there is no runc')

  const before = processCount()
  const times = new Map(ways.map(([name]) => [name, [] as number[]]))
  for (const [, run] of ways) await run()
  for (let n = 0; n < RUNS; n++) {
    for (const [name, run] of ways) {
      if (name.includes('waiting')) await new Promise((done) => setTimeout(done, 300))
      const began = performance.now()
      await run()
      times.get(name)!.push(performance.now() - began)
    }
  }
  for (const [name, run] of ways) {
    const began = performance.now()
    await Promise.all(Array.from({ length: AT_ONCE }, () => inTurn(run, Math.ceil(RUNS / AT_ONCE))))
    const perSecond = (AT_ONCE * Math.ceil(RUNS / AT_ONCE) * 1_000) / (performance.now() - began)
    const all = times.get(name)!.toSorted((a, b) => a - b)
    const at = (share: number) =>
      (all[Math.min(all.length - 1, Math.floor(share * all.length))] ?? 0).toFixed(0)
    console.log(
      `${name.padEnd(22)} p50 ${at(0.5).padStart(4)} ms  p95 ${at(0.95).padStart(4)} ms  ${AT_ONCE} at a time ${perSecond.toFixed(1)}/s`,
    )
  }
  for (const tools of opened) await tools[Symbol.asyncDispose]()
  const mounts = readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .filter((line) => line.includes(folder))
  console.log(
    `left: ${processes.running.length} runs, ${processCount() - before} processes, ${mounts.length} mounts, ${existsSync(join(stateDir, 'pids')) ? (await runProgram('ls', [join(stateDir, 'pids')])).stdout.length : 0} pid files`,
  )
} finally {
  await stack.disposeAsync()
  rmSync(folder, { recursive: true, force: true })
}

async function inTurn(run: () => Promise<unknown>, times: number): Promise<void> {
  for (let n = 0; n < times; n++) await run()
}

function processCount(): number {
  const cgroupless = readFileSync('/proc/loadavg', 'utf8').split(' ')[3] ?? '0/0'
  return Number(cgroupless.split('/')[1])
}

/** Returns a function that runs the tool's program with only runc; the root and the configuration are created once. */
function runcBundle(): () => Promise<void> {
  const bundle = join(folder, 'bundle')
  const root = join(bundle, 'root')
  for (const path of ['proc', 'dev', 'tmp', 'hearth/bin', 'hearth/input', 'hearth/tool', 'etc']) {
    mkdirSync(join(root, path), { recursive: true })
  }
  writeFileSync(join(root, 'hearth', 'input', 'input.json'), '{}')
  const bind = (source: string, destination = source) => ({
    source,
    destination,
    type: 'bind',
    options: ['rbind', 'ro', 'nosuid', 'nodev'],
  })
  const links = ['bin', 'sbin', 'lib', 'lib64'].filter((name) => !machineMounts().includes(`/${name}`))
  const config = {
    ociVersion: '1.0.2',
    process: {
      user: { uid: 65534, gid: 65534 },
      args: ['/hearth/bin/node', '/hearth/tool/main.mjs'],
      env: ['PATH=/usr/bin:/bin'],
      cwd: '/',
      noNewPrivileges: true,
    },
    root: { path: root, readonly: true },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755', 'size=64k'] },
      { destination: '/tmp', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'nodev', 'size=16m'] },
      ...machineMounts().map((path) => bind(path)),
      ...links.filter((name) => existsSync(`/usr/${name}`)).map((name) => bind(`/usr/${name}`, `/${name}`)),
      bind(process.execPath, '/hearth/bin/node'),
      bind(PROGRAM, '/hearth/tool'),
    ],
    linux: {
      namespaces: ['pid', 'network', 'ipc', 'uts', 'mount'].map((type) => ({ type })),
      resources: { memory: { limit: 512 * 1024 * 1024 }, pids: { limit: 32 } },
    },
  }
  writeFileSync(join(bundle, 'config.json'), JSON.stringify(config))
  let n = 0
  return () =>
    new Promise((resolve, reject) => {
      const id = `hearth-bench-${process.pid}-${n++}`
      const child = spawn('runc', ['--root', join(folder, 'runc'), 'run', '--bundle', bundle, id], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      let printed = ''
      child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()))
      child.once('error', reject)
      child.once('close', (code) =>
        code === 0 && printed.includes('"utc"')
          ? resolve()
          : reject(new Error(`runc run exited with ${code}: ${printed}`)),
      )
    })
}
