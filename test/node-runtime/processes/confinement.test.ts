import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmodSync, linkSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer as createHttp } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Confinement } from '../../../node-runtime/processes/confinement.ts'
import { ProcessDriver } from '../../../node-runtime/processes/process-driver.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { realPython } from '../../support/servers/nodes/python.ts'

/** Runs expressions one by one and prints the outcome of each. */
const TRY = `
import json, os, socket, sys, urllib.request
def attempt(what):
    try:
        return repr(eval(what, {'os': os, 'socket': socket, 'open': open, 'urllib': urllib}))
    except BaseException as error:
        return type(error).__name__
print(json.dumps([attempt(what) for what in sys.argv[1:]]))`

const DENIED = /^'?(?:PermissionError|OSError|FileNotFoundError|ConnectionRefusedError|URLError|gaierror)'?$/

function skip(test: Mocha.Context, measure: string): never {
  test.runnable().title += ` (skipped: this kernel does not enforce restrictions on ${measure} for this user)`
  return test.skip()
}

describe('the confinement of a child process', function () {
  this.timeout(30_000)
  const folder = temporaryFolder()
  const stateDir = join(folder.path, 'node')
  const work = join(stateDir, 'work')
  const weights = join(stateDir, 'weights', 'blobs', 'a')
  const driver = new ProcessDriver({ stateDir, python: async () => realPython() })
  before(() => {
    for (const dir of [work, join(work, 'out'), join(stateDir, 'weights', 'blobs'), join(work, 'base')]) {
      mkdirSync(dir, { recursive: true })
    }
    writeFileSync(join(stateDir, 'identity.json'), 'the node is me', { mode: 0o600 })
    writeFileSync(weights, 'weights')
    linkSync(weights, join(work, 'base', 'model'))
  })
  after(async () => {
    await driver.stopAll({ graceMs: 0 })
    folder[Symbol.dispose]()
  })

  const confinement = (more: Partial<Confinement> = {}): Confinement => ({
    reads: [work],
    writes: [join(work, 'out')],
    network: 'none',
    memoryMb: 500,
    hasGpu: false,
    oomScore: 600,
    ...more,
  })
  async function tried(what: string[], more: Partial<Confinement> = {}): Promise<string[]> {
    const child = await driver.start({
      name: `try-${Math.random()}`,
      command: realPython(),
      args: ['-c', TRY, ...what],
      confinement: confinement(more),
    })
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
    assert.deepEqual(await child.exited, { code: 0 }, err)
    return JSON.parse(out) as string[]
  }
  const open = (path: string, mode = 'r') => `open(${JSON.stringify(path)}, '${mode}')`
  async function needs(test: Mocha.Context, measure: 'files' | 'mounts' | 'privileges'): Promise<void> {
    const held = await driver.held()
    if (held[measure] !== 'none') return
    skip(test, measure)
  }

  it('blocks AF_VSOCK sockets and io_uring, which bypass network namespaces', async function () {
    await needs(this, 'privileges')
    const socket = (...args: (number | string)[]) => `socket.socket(${args.join(', ')}).close()`
    const call = (number: number) =>
      `[(lambda c: (c.syscall(${number}, 8, None, 0, 0, None, 0), __import__('ctypes').get_errno()))(__import__('ctypes').CDLL(None, use_errno=True))]`

    // Streams and datagrams, with a default and an explicit protocol, and with an explicit SOCK_CLOEXEC.
    assert.deepEqual(
      await tried([socket(40, 1), socket(40, 2), socket(40, 1, 0), socket(40, '1 | socket.SOCK_CLOEXEC')]),
      Array.from({ length: 4 }, () => 'PermissionError'),
    )
    assert.deepEqual(await tried([425, 426].map(call)), ['[(-1, 1)]', '[(-1, 1)]'])
    // Libraries use these: Unix sockets, IPv4, IPv6 and netlink.
    assert.deepEqual(await tried([1, 2, 10, 16].map((family) => socket(family, 2))), [
      'None',
      'None',
      'None',
      'None',
    ])
  })

  it("blocks syncs of the machine's disks, and core dumps", async function () {
    await needs(this, 'privileges')
    const call = (x86: number, arm: number, ...args: (number | string)[]) =>
      `(lambda c: (c.syscall(${[x86, arm].join(" if os.uname().machine == 'x86_64' else ")}, ${args.join(', ')}), __import__('ctypes').get_errno()))(__import__('ctypes').CDLL(None, use_errno=True))`
    const out = JSON.stringify(join(work, 'out', 'durable'))

    const answers = await tried([
      call(162, 81, 0),
      call(306, 267, `os.open(${JSON.stringify(work)}, 0)`),
      // It can fsync its own files.
      `os.fsync(os.open(${out}, os.O_CREAT | os.O_WRONLY))`,
      `__import__('resource').getrlimit(__import__('resource').RLIMIT_CORE)`,
    ])

    // A limit of 0 would let the kernel start the program that core_pattern names.
    assert.deepEqual(answers, ['(-1, 1)', '(-1, 1)', 'None', '(1, 1)'])
  })

  it("hides the node's environment, except for variables that control the hardware", async () => {
    const secrets = {
      HEARTH_NODE_TOKEN: 'x',
      TEMPORAL_ADDRESS: 'x',
      DATABASE_URL: 'x',
      HTTPS_PROXY: 'x',
      HF_TOKEN: 'x',
      AWS_SECRET_ACCESS_KEY: 'x',
      SSH_AUTH_SOCK: 'x',
      CUDA_VISIBLE_DEVICES: '1',
    }
    const before = { ...process.env }
    Object.assign(process.env, secrets)
    try {
      const [found = ''] = await tried(['sorted(os.environ.items())'])

      assert.match(found, /CUDA_VISIBLE_DEVICES/)
      for (const name of Object.keys(secrets).slice(0, -1)) assert.doesNotMatch(found, new RegExp(name))
      const home = /\('HOME', '([^']+)'\)/.exec(found)?.[1] ?? ''
      assert.ok(home.startsWith(stateDir), home)
      assert.notEqual(home, process.env['HOME'])
    } finally {
      process.env = before
    }
  })

  it("hides the node's identity and every file that the child was not given", async function () {
    await needs(this, 'files')
    const [given, ...others] = await tried([
      `${open(join(work, 'base', 'model'))}.read()`,
      open(join(stateDir, 'identity.json')),
      open(weights),
      `os.listdir(${JSON.stringify(stateDir)})`,
      `os.listdir('/root')`,
      open(`/proc/${process.pid}/environ`),
      open('/etc/shadow'),
    ])

    assert.equal(given, "'weights'")
    for (const other of others) assert.match(other, DENIED)
  })

  it('blocks writes to the weights under any name', async function () {
    await needs(this, 'files')
    const model = join(work, 'base', 'model')
    const answers = await tried([
      open(model, 'a'),
      open(weights, 'w'),
      `os.truncate(${JSON.stringify(model)}, 0)`,
      `os.link(${JSON.stringify(model)}, ${JSON.stringify(join(work, 'out', 'mine'))})`,
      `os.rename(${JSON.stringify(model)}, ${JSON.stringify(join(work, 'out', 'mine'))})`,
      `os.unlink(${JSON.stringify(model)})`,
    ])

    for (const answer of answers) assert.match(answer, DENIED)
    assert.equal(readFileSync(weights, 'utf8'), 'weights')
  })

  it('blocks chmod of the weights, which would hide them from others', async function () {
    await needs(this, 'mounts')
    chmodSync(weights, 0o644)

    const [answer = ''] = await tried([`os.chmod(${JSON.stringify(weights)}, 0)`])

    assert.match(answer, DENIED)
    assert.equal(statSync(weights).mode & 0o777, 0o644)
  })

  it("allows writes to the child's own folders and to its output folder", async () => {
    const answers = await tried([
      `${open(join(work, 'out', 'model.txt'), 'w')}.write('trained')`,
      `open(os.environ['TMPDIR'] + '/a', 'w').write('a')`,
      `open(os.environ['HOME'] + '/b', 'w').write('b')`,
    ])

    assert.deepEqual(answers, ['7', '1', '1'])
    assert.equal(readFileSync(join(work, 'out', 'model.txt'), 'utf8'), 'trained')
  })

  it("blocks the network, including this machine, but not the child's own loopback", async function () {
    const held = await driver.held()
    if (held.network === 'none') {
      skip(this, 'network')
    }
    const server = createHttp((_, res) => res.end('secret'))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const { port } = server.address() as AddressInfo
    const connect = `socket.create_connection(('127.0.0.1', ${port}), 2)`
    try {
      const own =
        '(lambda s: (s.bind(("127.0.0.1", 0)), s.listen(), socket.create_connection(s.getsockname(), 2)) and 1)(socket.socket())'
      const [answer = '', interfaces, loopback] = await tried([connect, 'socket.if_nameindex()', own])
      assert.match(answer, DENIED)
      if (held.network === 'namespace') {
        assert.equal(interfaces, "[(1, 'lo')]")
        assert.equal(loopback, '1')
      }
      if (held.files === 'none') return
      const [listening = '', outgoing = ''] = await tried(
        ['socket.create_server(("127.0.0.1", 0))', connect],
        {
          network: 'listen',
        },
      )
      assert.match(listening, /^<socket/)
      assert.match(outgoing, DENIED)
    } finally {
      server.close()
    }
  })

  it("blocks the socket of another child's model server", async function () {
    await needs(this, 'mounts')
    const other = join(await driver.makeFolder(), 'server.sock')
    const server = createServer()
    await once(server.listen(other), 'listening')
    try {
      const [answer = ''] = await tried([`socket.socket(socket.AF_UNIX).connect(${JSON.stringify(other)})`])
      assert.match(answer, DENIED)
    } finally {
      server.close()
    }
  })

  it('drops every privilege', async function () {
    await needs(this, 'privileges')
    const [status = ''] = await tried([open('/proc/self/status') + '.read()'])

    assert.match(status, /CapPrm:\\t0+\\n/)
    assert.match(status, /CapBnd:\\t0+\\n/)
    assert.match(status, /NoNewPrivs:\\t1\\n/)
  })

  describe('with a GPU', () => {
    const gpu = { hasGpu: true, memoryMb: 500 }
    /** Python that opens the name of its own thread for writing, like NVIDIA's driver, and prints the outcome. */
    const NAME = `
def name(mode='r+'):
    with open(f'/proc/self/task/{threading.get_native_id()}/comm', mode) as comm:
        return comm.write('cuda')`
    const RUN = `
import os, subprocess, sys, threading
${NAME}
def thread():
    named = []
    worker = threading.Thread(target=lambda: named.append(name('w')))
    worker.start(); worker.join()
    return named
def grandchild(code):
    return int(subprocess.run([sys.executable, '-c', 'import threading' + code], capture_output=True).stdout or 0)
def forked():
    pid = os.fork()
    if pid == 0:
        os._exit(name())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print([name(), name('w'), thread(), forked(), grandchild(${JSON.stringify(`${NAME}
print(name())`)})])`

    async function names(more: Partial<Confinement>): Promise<string> {
      const child = await driver.start({
        name: `names-${Math.random()}`,
        command: realPython(),
        args: ['-c', RUN],
        confinement: confinement(more),
      })
      const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
      const { code } = await child.exited
      return code === 0 ? out.trim() : (err.trim().split('\n').at(-1) ?? '')
    }

    it('lets the child, its threads and its descendants set their thread names in /proc', async () => {
      assert.equal(await names(gpu), '[4, 4, [4], 4, 4]')
      assert.equal(await names({ ...gpu, network: 'listen' }), '[4, 4, [4], 4, 4]')
    })

    it("doesn't let a child without a GPU set its thread names, because nothing needs them", async function () {
      await needs(this, 'files')
      assert.match(await names({ hasGpu: false }), /^(?:PermissionError|OSError)/)
    })

    it("blocks writes and chmod on the machine's files in /proc, which all mounts share", async function () {
      await needs(this, 'mounts')
      const below = (folder: string) => readdirSync(folder).map((name) => join(folder, name))
      const machine = [
        '/proc/sys/kernel/core_pattern',
        '/proc/sys/kernel/modprobe',
        '/proc/sys/vm/overcommit_memory',
        '/proc/sys/vm/drop_caches',
        '/proc/sysrq-trigger',
        '/proc/irq/default_smp_affinity',
        ...below('/proc/irq').flatMap((path) =>
          statSync(path).isDirectory() ? [join(path, 'smp_affinity')] : [],
        ),
        ...below('/proc/pressure'),
        '/proc/mtrr',
      ]
      const all = below('/proc').filter((path) => !/^\/proc\/(?:\d+|.*self|mounts|net)$/.test(path))
      const changes = all.map((path) => `os.chmod('${path}', os.stat('${path}').st_mode & 0o777)`)
      const answers = await tried([...machine.map((path) => open(path, 'r+')), ...changes], gpu)

      for (const [at, answer] of answers.entries()) assert.match(answer, DENIED, [...machine, ...all][at])
    })

    it("blocks writes to other processes' files in /proc if the node was able to protect them", async function () {
      await needs(this, 'mounts')
      const other = await driver.start({
        name: 'other',
        command: realPython(),
        args: ['-c', 'import time; time.sleep(60)'],
        confinement: confinement(gpu),
      })
      try {
        const pids = ['1', process.pid, process.ppid, await other.pid()].map(String)
        const files = ['mem', 'environ', 'comm', 'maps', 'fd/0']
        const scores = pids.map((pid) => open(`/proc/${pid}/oom_score_adj`, 'r+'))
        const contents = pids.flatMap((pid) =>
          files.map((file) => `${open(`/proc/${pid}/${file}`, 'r+')}.write('x')`),
        )
        const answers = await tried([...contents, ...(process.getuid?.() === 0 ? scores : [])], gpu)

        for (const answer of answers) assert.match(answer, DENIED)
      } finally {
        await other.stop({ graceMs: 0 })
      }
    })

    it('still lets the child read what its libraries need to know about the machine', async () => {
      const answers = await tried(
        [
          '/proc/meminfo',
          '/proc/cpuinfo',
          '/proc/self/maps',
          '/proc/sys/vm/overcommit_memory',
          '/proc/devices',
        ].map((path) => `len(${open(path)}.read()) > 0`),
        gpu,
      )

      assert.deepEqual(new Set(answers), new Set(['True']))
    })
  })

  it('ends a child that exceeds its memory limit, and reports its use and its limit', async () => {
    const grow = 'parts = []\nimport time\nwhile True:\n  parts.append(bytearray(20 << 20)); time.sleep(0.02)'
    const child = await driver.start({
      name: 'grow',
      command: realPython(),
      args: ['-c', grow],
      confinement: confinement({ memoryMb: 300 }),
    })

    await child.exited

    assert.match(child.excess ?? '', /^it used \d+ MB of memory; its limit is 300 MB$/)
  })

  it('ends a child that requests too much memory at once', async () => {
    const [answer] = await tried(['len(bytearray(8 << 30))'], { memoryMb: 300 })

    assert.equal(answer, 'MemoryError')
  })

  it('ends a child rather than run it with weaker isolation than the node reported', async () => {
    const strict = new ProcessDriver({ stateDir, python: async () => realPython() })
    const held = await strict.held()
    Object.defineProperty(strict, 'held', { value: async () => ({ ...held, files: 'vault' }) })
    const child = await strict.start({
      name: 'strict',
      command: realPython(),
      args: ['-c', 'print(1)'],
      confinement: confinement(),
    })

    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])

    assert.deepEqual(await child.exited, { code: 126 })
    assert.equal(out, '')
    assert.match(err, /isolation cannot be set up: files/)
  })
})
