import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { KernelMemory } from '../../../node-runtime/processes/kernel-memory.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

/** Locks bytes in many files; on a single file, each additional lock takes longer. */
const LOCKS = `
import fcntl, os, socket, struct, sys, time
for n in range(900):
    fd = os.open(f"{sys.argv[1]}/{n}", os.O_CREAT | os.O_RDWR)
    for at in range(900, 0, -1):
        fcntl.fcntl(fd, fcntl.F_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 2 * at, 1, 0))
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[2])
door.listen()
waiting = socket.socket(socket.AF_UNIX)
waiting.connect(sys.argv[2])
print("done", flush=True)
sys.stdin.read()
kept = door.accept()
print("accepted", flush=True)
time.sleep(60)`

/** Creates 60,000 mappings, and so does each of its 9 children: about 120 MB of records. */
const MAPPINGS = `
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
base = libc.mmap(None, 60000 * 4096, 0, 0x4022, -1, 0)
for page in range(base, base + 60000 * 4096, 8192): libc.mprotect(page, 4096, 3)
pids = [os.getpid()]
for _ in range(9):
    pids.append(os.fork())
    if pids[-1] == 0: break
else:
    print(' '.join(map(str, pids)), flush=True)
sys.stdin.read()`

/** Leaves a connection waiting to be accepted. */
const PENDING = `
import os, socket, sys
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[1])
door.listen()
waiting = socket.socket(socket.AF_UNIX)
waiting.connect(sys.argv[1])
print(os.getpid(), flush=True)
sys.stdin.read()`

describe('kernel memory accounting for a tool', function () {
  this.timeout(120_000)

  it("counts its processes' locks, and no others", async () => {
    using folder = temporaryFolder()
    let list = (): Promise<number[]> => Promise.resolve([pid])
    const options = { list: () => list(), maxHiddenMb: 64 }
    using its = new KernelMemory(options)
    using others = new KernelMemory({ list: () => Promise.resolve([process.pid]) })
    const args = ['-c', LOCKS, folder.path, join(folder.path, 'door')]
    const child = spawn('python3', args, { stdio: ['pipe', 'pipe', 'inherit'] })
    const pid = child.pid!
    try {
      assert.deepEqual([await its.usedMb([pid]), await others.usedMb([process.pid])], [0, 0])
      assert.equal(await its.excess([pid]), undefined)
      using neighbour = new KernelMemory(options)
      assert.equal(await neighbour.excess([pid]), undefined)

      await once(child.stdout, 'data')

      const usedMb = await its.usedMb([pid])
      assert.ok(usedMb >= 64, `${usedMb} MB`)
      // This process has few mappings, so it is charged for less than the whole growth.
      const ofOthers = await others.usedMb([process.pid])
      assert.ok(ofOthers < 10, `${ofOthers} MB`)
      // A connection that stays unaccepted for several checks may hold descriptors that no process has open.
      others[Symbol.dispose]()
      for (let n = 0; n < 12; n++)
        assert.equal(await neighbour.excess([pid]), undefined, 'the locks explain the growth')
      for (let n = 0; n < 9; n++) assert.equal(await its.excess([pid]), undefined)
      assert.match((await its.excess([pid])) ?? '', /^it left descriptors or connections unreceived while/)
      child.stdin.end('accept')
      await once(child.stdout, 'data')
      assert.equal(await its.excess([pid]), undefined)
      // A process that ends during a check may have passed its descriptors to another process.
      const ended = async () => {
        const other = spawn('true')
        await once(other, 'exit')
        return other.pid!
      }
      const replaced = [pid, await ended()]
      const looks: (string | undefined)[] = []
      list = async () => [pid, await ended()]
      for (let n = 0; n < 3; n++) looks.push(await its.excess(replaced))
      assert.deepEqual(looks.slice(0, 2), [undefined, undefined])
      assert.match(
        looks[2] ?? '',
        /^its processes kept replacing each other while the kernel's memory grew by/,
      )
      // A program that starts others one after another makes no progress while it is stopped.
      list = () => Promise.resolve([pid])
      for (let n = 0; n < 6; n++) assert.equal(await its.excess(replaced), undefined)
    } finally {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  })

  it('counts mappings made before the first check, and charges no other tool for them', async () => {
    using folder = temporaryFolder()
    await using programs = new Programs()
    using its = new KernelMemory({ list: () => mapper })
    using neighbour = new KernelMemory({ list: () => waiting, maxHiddenMb: 64 })
    const mapper = programs.start(MAPPINGS)
    const waiting = programs.start(PENDING, join(folder.path, 'door'))

    const [pids, others] = await Promise.all([mapper, waiting])

    // The other tool, whose connection waits, is checked first.
    for (let n = 0; n < 12; n++) assert.equal(await neighbour.excess(others), undefined)
    const usedMb = await its.usedMb(pids)
    assert.ok(usedMb >= 64, `${usedMb} MB`)
  })

  it('charges no other tool for mappings made while a third tool ended', async () => {
    using folder = temporaryFolder()
    await using programs = new Programs()
    using neighbour = new KernelMemory({ list: () => waiting, maxHiddenMb: 64 })
    const waiting = programs.start(PENDING, join(folder.path, 'door'))
    const third = new Programs()
    await third.start(MAPPINGS)
    using _its = new KernelMemory({ list: () => mapper })
    const mapper = programs.start(MAPPINGS)
    const [others] = await Promise.all([waiting, mapper])
    await third[Symbol.asyncDispose]()

    // The machine's total is the same as when the mapper started, so the mapper does not count as grown.
    for (let n = 0; n < 12; n++) assert.equal(await neighbour.excess(others), undefined)
  })
})

/** Python programs that print their process ids and exit when their input closes. */
class Programs implements AsyncDisposable {
  readonly #started: ChildProcess[] = []

  async start(code: string, ...args: string[]): Promise<number[]> {
    const child = spawn('python3', ['-c', code, ...args], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#started.push(child)
    const [printed] = await once(child.stdout, 'data')
    return String(printed).split(' ').map(Number)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = this.#started.map((child) => once(child, 'close'))
    for (const child of this.#started) child.stdin?.end()
    await Promise.all(ended)
  }
}
