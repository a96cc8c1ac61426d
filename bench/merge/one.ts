// One merge or one copy, measured from inside its process: node bench/merge/one.ts METHOD DIR THREADS
import { fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { mergeModels, type MergeSpec } from '../../node-runtime/merge/merge-models.ts'
import { peakMb } from '../../node-runtime/processes/process-usage.ts'

const [what = '', dir = '', threads = '2'] = process.argv.slice(2)
const model = (name: string) => ({ dir: join(dir, name), label: name, weight: 1 })
const outDir = join(dir, 'out')

function specOf(method: string): MergeSpec {
  const [base, sources] = [model('m0'), [model('m1'), model('m2')]]
  if (method === 'slerp') return { method, sources }
  if (method === 'ties') return { method, base, sources, density: 0.5 }
  if (method === 'dare') return { method, base, sources, density: 0.5, seed: 1 }
  return { method: 'adapter_merge', base, sources: [model('adapter')] }
}

/** Copies a file and syncs it to disk. Uses reads and writes, so that no blocks are shared. */
function copy(): void {
  const [from, to] = [openSync(join(dir, 'm1', 'model.safetensors'), 'r'), openSync(outDir, 'w')]
  const chunk = Buffer.alloc(4 * 1024 * 1024)
  for (let count = readSync(from, chunk); count > 0; count = readSync(from, chunk))
    writeSync(to, chunk, 0, count)
  fsyncSync(to)
}

const startedAt = performance.now()
if (what === 'copy') copy()
else await mergeModels(specOf(what), { outDir, threads: Number(threads) })
const wall_s = (performance.now() - startedAt) / 1000
const { userCPUTime, systemCPUTime } = process.resourceUsage()
// We don't use `maxRSS`: on Linux it's at least the memory of the parent at the fork.
const peak_mb = Math.round(await peakMb([process.pid]))
console.log(JSON.stringify({ wall_s, cpu_s: (userCPUTime + systemCPUTime) / 1e6, peak_mb }))
