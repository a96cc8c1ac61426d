import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { KernelMemory } from '../../../node-runtime/processes/kernel-memory.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

/** Locks bytes of many files; on one file each further lock takes longer. */
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

describe('the memory of the kernel for a tool', function () {
  this.timeout(120_000)

  it('counts the locks of its processes, and none of others', async () => {
    using folder = temporaryFolder()
    const [its, others] = [new KernelMemory({ maxHiddenMb: 64 }), new KernelMemory()]
    const args = ['-c', LOCKS, folder.path, join(folder.path, 'door')]
    const child = spawn('python3', args, { stdio: ['pipe', 'pipe', 'inherit'] })
    try {
      const pid = child.pid!
      const list = () => Promise.resolve([pid])
      assert.deepEqual([await its.usedMb([pid]), await others.usedMb([process.pid])], [0, 0])
      assert.equal(await its.excess([pid], list), undefined)
      using neighbour = new KernelMemory({ maxHiddenMb: 64 })
      assert.equal(await neighbour.excess([pid], list), undefined)

      await once(child.stdout, 'data')

      const usedMb = await its.usedMb([pid])
      assert.ok(usedMb >= 64, `${usedMb} MB`)
      // Its own mappings are few, so it is charged for less than the growth.
      const ofOthers = await others.usedMb([process.pid])
      assert.ok(ofOthers < 10, `${ofOthers} MB`)
      // A connection that waits, at several looks in a row, may hold descriptors that no process has open.
      others[Symbol.dispose]()
      for (let n = 0; n < 12; n++)
        assert.equal(await neighbour.excess([pid], list), undefined, 'the locks explain the growth')
      for (let n = 0; n < 9; n++) assert.equal(await its.excess([pid], list), undefined)
      assert.match(
        (await its.excess([pid], list)) ?? '',
        /^it left descriptors or connections unreceived while/,
      )
      child.stdin.end('accept')
      await once(child.stdout, 'data')
      assert.equal(await its.excess([pid], list), undefined)
      // A process that ends during a look may have handed its descriptors to another process.
      const ended = async () => {
        const other = spawn('true')
        await once(other, 'exit')
        return other.pid!
      }
      const replaced = [pid, await ended()]
      const looks: (string | undefined)[] = []
      for (let n = 0; n < 3; n++) looks.push(await its.excess(replaced, async () => [pid, await ended()]))
      assert.deepEqual(looks.slice(0, 2), [undefined, undefined])
      assert.match(looks[2] ?? '', /^its processes replaced each other while the kernel's memory grew by/)
      // A program that starts others one after another stands still when it is stopped.
      for (let n = 0; n < 6; n++)
        assert.equal(await its.excess(replaced, () => Promise.resolve([pid])), undefined)
    } finally {
      child.kill('SIGKILL')
    }
  })
})
