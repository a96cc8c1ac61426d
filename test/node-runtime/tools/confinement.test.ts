import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { findPython } from '../../../node-runtime/environments/python-env.ts'
import { treeOf } from '../../../platform/processes/process-tree.ts'
import { runProgram } from '../../../platform/processes/run-program.ts'
import { SOON_MS, until } from '../../support/assertions/until.ts'
import { requireToolBench, scriptTool, type ToolBench } from '../../support/servers/nodes/tools.ts'
import { skipBecause } from '../../support/skip.ts'

for (const kind of ['processes', 'containers'] as const)
  describe(`tool confinement with ${kind}`, function () {
    this.timeout(20_000)
    let bench: ToolBench
    let server: Server
    let port: number

    before(async function () {
      bench = await requireToolBench(this, {
        inContainers: kind === 'containers',
        more: [
          scriptTool('loud', 'yes | head -c 1000000000'),
          scriptTool('large', `printf '{"x": "'; head -c 100000 /dev/zero | tr '\\0' x; printf '"}'`, {
            output: 'json',
          }),
          scriptTool('wordy', 'head -c 100000 /dev/zero | tr "\\0" x; echo warned >&2'),
          scriptTool('mute', ':', { output: 'json' }),
          scriptTool('broken', 'echo /secret/path/of.this went wrong >&2; exit 9', { output: 'json' }),
        ],
      })
      server = createServer((_, answer) => answer.end('reached')).listen(0, '127.0.0.1')
      await once(server, 'listening')
      port = (server.address() as AddressInfo).port
    })
    after(async () => {
      server?.close()
      await bench?.[Symbol.asyncDispose]()
    })
    afterEach(async () => {
      await until(async () => (await bench.leftovers()).length === 0, SOON_MS)
      assert.equal(mounts().length, 0)
    })

    /** Counts the sandbox mounts that this process can see. */
    const mounts = () =>
      readFileSync('/proc/self/mounts', 'utf8')
        .split('\n')
        .filter((line) => line.includes(bench.folder))

    it('denies the network, including this machine', async () => {
      const code = `
import socket
for address in [("127.0.0.1", ${port}), ("169.254.169.254", 80), ("1.1.1.1", 443)]:
    try:
        socket.create_connection(address, timeout=2); print("reached", address)
    except OSError as error:
        print(type(error).__name__)
try:
    socket.getaddrinfo("example.com", 443); print("resolved")
except OSError:
    print("no name")
print(open("/proc/net/dev").read().count(":"))`
      const { stdout } = await bench.python(code)

      assert.doesNotMatch(stdout, /reached|resolved/)
      assert.equal(stdout.trim().split('\n').at(-1), '1')
    })

    it('hides other processes and blocks signals to them', async () => {
      const code = `
import os
print(sorted(int(name) for name in os.listdir("/proc") if name.isdigit()))
try:
    os.kill(${process.pid}, 0); print("signalled")
except OSError as error:
    print(type(error).__name__)`
      const { stdout } = await bench.python(code)

      assert.equal(stdout, '[1]\nProcessLookupError\n')
    })

    it('denies reads of files that belong to the node and its users', async () => {
      // A container has its own /sys and /run.
      const paths = [
        ...(kind === 'processes' ? ['/run', '/sys', '/home', '/var/lib'] : []),
        bench.folder,
        import.meta.dirname,
        '/root/.ssh',
        '/etc/shadow',
      ]
      const code = `
import os
for path in ${JSON.stringify(paths)}:
    try:
        print(path, os.listdir(path) if os.path.isdir(path) else open(path).read())
    except OSError as error:
        print(type(error).__name__)
print(sorted(os.environ))`
      const { stdout } = await bench.python(code)
      const lines = stdout.trim().split('\n')

      assert.deepEqual(
        lines.slice(0, -1),
        paths.map(() => 'FileNotFoundError'),
      )
      const names = new Set(['HOME', 'HOSTNAME', 'LANG', 'PATH', 'TERM', 'TMPDIR', 'container'])
      const own = (lines.at(-1) ?? '').match(/\w+/g) ?? []
      assert.deepEqual(
        own.filter((name) => !names.has(name)),
        [],
      )
    })

    it("denies writes to the tool's root, its input and the machine's programs", async () => {
      const code = `
import os
for path in ["/x", "/usr/x", "/etc/passwd", "/hearth/x", "/hearth/input/main.py", "/hearth/input/y", "/dev/x", "/proc/sys/kernel/hostname"]:
    try:
        open(path, "w"); print("wrote", path)
    except OSError:
        pass
status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines())
print(os.getuid() > 0, [int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")], status["NoNewPrivs"])`
      const { stdout } = await bench.python(code)

      assert.equal(stdout, 'True [0, 0, 0, 0] 1\n')
    })

    it('denies creating namespaces, mounts and chroots', async function () {
      if (kind === 'containers') skipBecause(this, 'the container engine decides which calls are blocked')
      const code = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name, arguments in [("unshare", (0x10000000,)), ("unshare", (0x20000,)), ("setns", (0, 0)), ("mount", (b"none", b"/tmp", b"tmpfs", 0, 0)),
    ("chroot", (b"/tmp",)), ("ptrace", (0, 0, 0, 0)), ("sethostname", (b"x", 1)), ("syscall", (425, 1, 0)), ("syscall", (435, 0, 0))]:
    print(name, getattr(libc, name)(*arguments) == -1)`
      const { stdout } = await bench.python(code)

      assert.doesNotMatch(stdout, /False/)
      assert.equal(stdout.trim().split('\n').length, 9)
    })

    it('ends a fork bomb and its leftovers', async () => {
      const code = `
import os, time
made = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(100)
        made += 1
except OSError:
    print(made < 64)`
      const { stdout } = await bench.python(code)

      assert.equal(stdout, 'True\n')
    })

    it('limits files, and removes them at the end', async () => {
      const code = `
import errno, os
for name in ["/tmp/a", "/tmp/b", "/dev/shm/c"]:
    try:
        file = os.open(name, os.O_CREAT | os.O_WRONLY)
        while True:
            os.write(file, bytes(1 << 20))
    except OSError as error:
        print(errno.errorcode[error.errno])
print(sum(os.stat("/tmp/" + name).st_size for name in "ab") <= 64 << 20)`
      const { stdout } = await bench.python(code)

      assert.match(stdout, /^((ENOSPC|EFBIG)\n){3}True\n$/)
    })

    it('limits memory', async () => {
      const { stderr, exit_code } = await bench.python('x = bytearray(4 << 30)')
      if (kind === 'processes') assert.match(stderr, /MemoryError/)
      else assert.equal(exit_code, 137)

      const begun = performance.now()
      const many = bench.python(`
import os, time
for _ in range(8):
    if os.fork() == 0:
        x = bytearray(os.urandom(1)) * (100 << 20)
        time.sleep(30)
        os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))`)
      if (kind === 'processes')
        await assert.rejects(many, {
          message: /the tool was ended because it used \d+ MB of memory; its limit is 512 MB/,
        })
      else assert.equal((await many).stdout, '-9\n')
      assert.ok(performance.now() - begun < 10_000)
    })

    it('ends an endless run with its children', async () => {
      const code = `
import os, time
os.setsid() if os.fork() == 0 else None
while True: time.sleep(1)`
      await assert.rejects(bench.python(code, 1), { message: 'the tool was ended after 1 s, its time limit' })
    })

    it('ends a run that prints a gigabyte', async () => {
      await assert.rejects(bench.run('loud', {}), {
        message: 'the tool was ended because it wrote more than 16 MB',
      })
    })

    it('truncates long output and says so, and rejects a long result', async () => {
      const wordy = await bench.run('wordy', {})

      assert.equal(wordy['stdout'], `${'x'.repeat(16 * 1_024)}\n[cut: ${100_000 - 16 * 1_024} bytes more]\n`)
      assert.equal(wordy['stderr'], 'warned\n')
      await assert.rejects(bench.run('large', {}), { message: 'the result of the tool is larger than 16 KB' })
    })

    it("passes on a failing tool's message, without folder paths", async () => {
      await assert.rejects(bench.run('mute', {}), {
        message: 'the tool mute did not print a JSON object',
      })
      await assert.rejects(bench.run('broken', {}), {
        message: 'the tool broken failed: …/of.this went wrong',
      })
    })

    it('ends the run when its caller leaves', async () => {
      const work = new AbortController()
      const running = bench.run('run_python', { code: 'import time\ntime.sleep(60)' }, work.signal)
      await until(async () => (await bench.leftovers()).length > 0)
      work.abort(new Error('left'))

      await assert.rejects(running, { message: 'left' })
    })

    it('gives other callers their turn while one caller fills the node', async () => {
      const work = new AbortController()
      const long = { code: 'import time\ntime.sleep(60)', timeout_s: 100 }
      const filling = Array.from({ length: 40 }, () => bench.run('run_python', long, work.signal, 'greedy'))
      const ends = Promise.allSettled(filling)
      await until(async () => (await bench.leftovers()).length > 2)
      const begun = performance.now()
      assert.equal((await bench.run('calculator', { expression: '1' }, undefined, 'other'))['text'], '1')
      assert.ok(performance.now() - begun < 10_000)
      work.abort(new Error('enough'))
      await ends
    })

    it('leaves nothing behind after many runs', async function () {
      this.timeout(60_000)
      const before = await processes()
      for (let n = 0; n < 10; n++) {
        await Promise.all(
          Array.from({ length: 5 }, () => bench.run('calculator', { expression: `${n} + 1` })),
        )
      }

      await until(async () => (await bench.leftovers()).length === 0)
      await until(async () => (await processes()) <= before, SOON_MS)
      assert.deepEqual(readdirSync(join(bench.folder, 'work')), [])
    })

    /** Counts this process's descendants, and other processes whose command line names the bench's folder. */
    async function processes(): Promise<number> {
      const below = new Set(await treeOf(process.pid))
      const others = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && !below.has(Number(name)))
      return below.size + others.filter((pid) => commandOf(pid).includes(bench.folder)).length
    }

    function commandOf(pid: string): string {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      } catch {
        // It has exited in the meantime.
        return ''
      }
    }
  })

describe('a tool whose interpreter is in a folder where the tool has its own files', function () {
  this.timeout(60_000)

  for (const parent of ['/tmp', '/dev/shm'])
    it(`runs with an interpreter under ${parent}`, async function () {
      await using stack = new AsyncDisposableStack()
      const folder = mkdtempSync(join(parent, 'hearth-interpreter-'))
      stack.defer(() => rmSync(folder, { recursive: true, force: true }))
      const environment = join(folder, 'environment')
      const base = await findPython({ cacheDir: folder, log: () => {} })
      await runProgram(base, ['-m', 'venv', '--without-pip', environment])
      const bench = stack.use(
        await requireToolBench(this, { interpreter: join(environment, 'bin', 'python') }),
      )

      const code =
        "import sys; open('/tmp/own', 'w').write('x'); print(sys.prefix, open('/dev/shm/own').read())"
      const { stdout, stderr } = await bench.python(code)

      assert.equal(stdout, `${environment} x\n`, stderr)
      assert.ok(!existsSync('/tmp/own'))
    })
})
