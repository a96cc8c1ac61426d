import { readFile } from 'node:fs/promises'

/** Returns a process and all its descendants, as far as Linux reports them. */
export async function treeOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
  const below = await Promise.all(text.split(' ').filter(Boolean).map(Number).map(treeOf))
  return [pid, ...below.flat()]
}
