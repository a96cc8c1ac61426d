import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const NAME = 'slow_package'
const WHEEL = `${NAME}-1.0-py3-none-any.whl`
/** Builds a wheel with one module, using only the standard library of Python. */
const MAKE = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.writestr('${NAME}.py', 'ready = True\\n')
    wheel.writestr('${NAME}-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: ${NAME}\\nVersion: 1.0\\n')
    wheel.writestr('${NAME}-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('${NAME}-1.0.dist-info/RECORD', '')
`

/** An environment named `slow` whose only package comes from a slow index. */
export interface SlowEnvironment extends AsyncDisposable {
  locksDir: string
  cacheDir: string
  /** How many times its package was downloaded. */
  readonly fetched: number
}

export async function slowEnvironment(folder: string, delayMs: number): Promise<SlowEnvironment> {
  const path = join(folder, WHEEL)
  execFileSync('python3', ['-c', MAKE, path])
  const wheel = readFileSync(path)
  let fetched = 0
  const answer = async (url: string, res: ServerResponse) => {
    if (!url.endsWith('.whl')) {
      return res.setHeader('content-type', 'text/html').end(`<a href="/${WHEEL}">${WHEEL}</a>`)
    }
    fetched += 1
    await sleep(delayMs)
    return res.end(wheel)
  }
  const server = createServer((req, res) => void answer(req.url ?? '', res))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const sha256 = createHash('sha256').update(wheel).digest('hex')
  const locksDir = join(folder, 'locks')
  mkdirSync(join(locksDir, 'slow'), { recursive: true })
  writeFileSync(
    join(locksDir, 'slow', 'requirements.lock'),
    `--index-url http://127.0.0.1:${port}/simple\n${NAME}==1.0 --hash=sha256:${sha256}\n`,
  )
  return {
    locksDir,
    cacheDir: join(folder, 'cache'),
    get fetched() {
      return fetched
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
