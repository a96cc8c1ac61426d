import assert from 'node:assert/strict'
import { loadCatalog } from '../../../platform/catalog.ts'
import { requireToolBench, type ToolBench } from '../../support/servers/nodes/tools.ts'
import {
  EARLY_MAPPINGS_ATTACK,
  EPOLL_ATTACK,
  HOLDING_ATTACKS,
  IN_FLIGHT_ATTACK,
  MAPPINGS_ATTACK,
  REFUSED_ATTACKS,
} from './attacks.ts'

const PYTHON = loadCatalog().tools.find(({ tool }) => tool.slug === 'run_python')!
/** `run_python` with less memory, for attacks that fill it slowly. */
const SMALL_PYTHON: typeof PYTHON = {
  ...PYTHON,
  tool: { ...PYTHON.tool, slug: 'small_python', limits: { ...PYTHON.tool.limits, memory_mb: 256 } },
}

describe("a tool's memory and CPU limits", function () {
  this.timeout(120_000)
  let bench: ToolBench

  before(async function () {
    // Most machines delegate no control groups. Where they do, these checks are the second line of defense.
    bench = await requireToolBench(this, { withGroups: false, more: [SMALL_PYTHON] })
  })
  after(async () => {
    await bench?.[Symbol.asyncDispose]()
  })

  for (const { name, code, refused } of REFUSED_ATTACKS)
    it(`block ${name}`, async () => {
      const { stdout, stderr } = await bench.python(code, 60)

      assert.equal(stdout, refused, stderr)
    })

  for (const { name, code } of HOLDING_ATTACKS)
    it(`count ${name}`, async () => {
      await assert.rejects(bench.python(code, 60), {
        message: /the tool was ended because it used \d+ MB of memory; its limit is 512 MB/,
      })
    })

  it('count records of mappings that forks copy', async () => {
    await assert.rejects(bench.run('small_python', { code: MAPPINGS_ATTACK, timeout_s: 60 }), {
      message: /the tool was ended because it used \d+ MB of memory; its limit is 256 MB/,
    })
  })

  it('count records of mappings that a tool creates as soon as it starts', async () => {
    await assert.rejects(bench.run('small_python', { code: EARLY_MAPPINGS_ATTACK, timeout_s: 60 }), {
      message: /the tool was ended because it used \d+ MB of memory; its limit is 256 MB/,
    })
  })

  it('end a tool that watches more descriptors than any ordinary program', async () => {
    await assert.rejects(bench.python(EPOLL_ATTACK, 60), {
      message: /the tool was ended because it watched more than 50,000 descriptors with epoll/,
    })
  })

  it('end a tool that leaves descriptors in flight, which no process has open', async () => {
    await assert.rejects(bench.python(IN_FLIGHT_ATTACK, 60), {
      message: /the tool was ended because it sent more than 16 descriptors that were not received/,
    })
  })

  it('suffice for ordinary programs with several processes', async () => {
    const { stdout, stderr } = await bench.python(
      `
import asyncio, mmap, multiprocessing as mp, queue, socket, sqlite3, subprocess, sys, threading
from multiprocessing import shared_memory
def square(n): return n * n
def add(total, lock, queue):
    with lock:
        total.value += 1
        queue.put(total.value)
async def wait():
    child = await asyncio.create_subprocess_exec("/bin/cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return (await child.communicate(b"x" * 200000))[0].count(b"x")
if __name__ == "__main__":
    with mp.Pool(4) as pool: print(pool.map(square, range(5)))
    total, lock, results = mp.Value("i", 0), mp.Lock(), mp.Queue()
    children = [mp.Process(target=add, args=(total, lock, results)) for _ in range(4)]
    for child in children: child.start()
    print(sorted(results.get() for _ in children), [child.join() for child in children][:1])
    with mp.Manager() as manager: print(len(manager.list([1, 2])))
    block = shared_memory.SharedMemory(create=True, size=8 << 20)
    block.buf[0] = 7
    print(block.buf[0]); block.close(); block.unlink()
    base = sqlite3.connect("/tmp/base"); base.execute("pragma journal_mode = wal"); base.execute("create table t (n)")
    base.execute("insert into t values (3)"); base.commit(); print(base.execute("select * from t").fetchall())
    print(asyncio.run(wait()))
    print(subprocess.run("head -c 100000 /dev/zero | wc -c; echo done > /dev/null", shell=True, capture_output=True, text=True).stdout.strip())
`,
      60,
    )

    assert.equal(
      stdout,
      '[0, 1, 4, 9, 16]\n[1, 2, 3, 4] [None]\n2\n7\n[(3,)]\n200000\n100000\n',
      stderr.slice(-1_000),
    )
  })

  it('suffice for scripts that copy files and start programs', async () => {
    const { stdout, stderr } = await bench.run('run_javascript', {
      timeout_s: 60,
      code: `
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { execSync } from 'node:child_process'
writeFileSync('/tmp/a', 'x'.repeat(100000))
copyFileSync('/tmp/a', '/tmp/b')
console.log(readFileSync('/tmp/b').length, execSync('echo hi').toString().trim(), new SharedArrayBuffer(8).byteLength)`,
    })

    assert.equal(stdout, '100000 hi 8\n', String(stderr))
  })
})
