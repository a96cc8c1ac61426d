import { readFile } from 'node:fs/promises'

/** A process and all that descend from it, as far as Linux tells. */
export async function treeOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
  const below = await Promise.all(text.split(' ').filter(Boolean).map(Number).map(treeOf))
  return [pid, ...below.flat()]
}
