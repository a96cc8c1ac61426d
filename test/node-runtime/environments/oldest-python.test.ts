import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { realPython } from '../../support/servers/nodes/python.ts'
import { skipBecause } from '../../support/skip.ts'

const SCRIPT = join(import.meta.dirname, 'oldest_python.py')
const FILES = globSync('{catalog,node-runtime}/**/*.py')
const OLDEST = 'python3.10'

const faults = (python: string, files: string[]): string =>
  execFileSync(python, [SCRIPT, ...files], { encoding: 'utf8' })

describe('the Python sources', () => {
  it('use only the syntax and regular expressions of Python 3.10', () => {
    assert.ok(FILES.length > 100)
    assert.equal(faults(realPython(), FILES), '')
  })

  it('compile with Python 3.10 itself', function () {
    if (spawnSync(OLDEST, ['-c', '']).status !== 0) skipBecause(this, `${OLDEST} is not on PATH`)
    assert.equal(faults(OLDEST, FILES), '')
  })

  it('fail the check if they use anything newer', async () => {
    using folder = temporaryFolder()
    const sources = {
      'possessive.py': `A = r'"(?:[^"]|"")*+"'`,
      'atomic.py': `mark = ','\nB = rf'(?>[^{mark}]+){mark}'`,
      'bytes.py': `D = rb'[^,]++,'`,
      'groups.py': 'try:\n    pass\nexcept* ValueError:\n    pass',
      'old.py': `C = r'a+?b*?[*+]+'`,
    }
    const files = Object.keys(sources).map((name) => join(folder.path, name))
    await Promise.all(Object.values(sources).map((text, i) => writeFile(files[i] ?? '', text)))
    const places = faults(realPython(), files)
      .trim()
      .split('\n')
      .map((location) => basename(location.split(':')[0] ?? ''))
    assert.deepEqual([...new Set(places)], ['possessive.py', 'atomic.py', 'bytes.py', 'groups.py'])
  })
})
