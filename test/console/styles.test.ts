import assert from 'node:assert/strict'
import { appendFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readConfig } from '../../platform/config.ts'
import { inConsolePackages } from '../../platform/console-build.ts'
import { runProgram } from '../../platform/processes/run-program.ts'
import { requireConsole } from '../support/servers/clients/browser.ts'

describe('console build', function () {
  this.timeout(180_000)
  before(async function () {
    await requireConsole(this)
  })

  /** Builds a copy of the console with a change, and returns the build output. */
  async function buildWith(change: (sources: string) => Promise<void>): Promise<string> {
    let output = 'built'
    await inConsolePackages(
      readConfig().HEARTH_CACHE_DIR,
      () => {},
      async (draft) => {
        await change(join(draft, 'src'))
        try {
          await runProgram(process.execPath, ['../../node_modules/vite/bin/vite.js', 'build'], { cwd: draft })
        } catch (err) {
          const { stdout = '', stderr = '', message } = err as Error & { stdout?: string; stderr?: string }
          output = `${stdout}${stderr}${message}`
        }
      },
    )
    return output
  }
  const replaceIn = async (file: string, from: string, to: string): Promise<void> => {
    const text = await readFile(file, 'utf8')
    assert.ok(text.includes(from), `${file} has no ${from}`)
    await writeFile(file, text.replace(from, to))
  }
  const badge = `import '@mantine/core/styles/Badge.css'\n`

  it('fails when the styles of a used component are missing', async () => {
    const output = await buildWith((sources) => replaceIn(join(sources, 'mantine.ts'), badge, ''))

    assert.match(output, /Badge has no styles in index/)
  })

  it('fails when a page uses a component whose styles are loaded by other pages', async () => {
    const page = `import { Slider } from '@mantine/core'\ndocument.title = String(<Slider />)\n`
    const output = await buildWith((sources) => appendFile(join(sources, 'pages/operators/audit.tsx'), page))

    assert.match(output, /Slider has no styles in /)
  })

  it("fails when styles are unused or not in Mantine's order", async () => {
    const output = await buildWith(async (sources) => {
      await replaceIn(join(sources, 'mantine.ts'), badge, '')
      await appendFile(join(sources, 'mantine.ts'), badge)
      await appendFile(join(sources, 'mantine.ts'), `import '@mantine/core/styles/Tree.css'\n`)
    })

    assert.match(output, /the styles of Badge belong before those of Title/)
    assert.match(output, /nothing uses the styles of Tree/)
  })
})
