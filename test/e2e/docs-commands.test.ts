import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { requireSpecialist } from '../support/builders/models/tiny-specialist.ts'
import { commandsOf, PAGES, splitCommands } from '../support/builders/pages/commands.ts'
import { EXCEPTIONS, exceptionFor } from '../support/builders/pages/exceptions.ts'
import { writeFilesOfPages } from '../support/builders/pages/files.ts'
import { PLACEHOLDERS } from '../support/builders/pages/placeholders.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { linkCheckout, PageShell } from '../support/servers/page-shell.ts'
import { dataDirectory, startTestPlatform, type TestPlatform } from '../support/servers/platform.ts'
import { requireLlamaCpp } from '../support/servers/worlds/llm-world.ts'

/** Runs first, because the other pages use its endpoints. */
const FIRST = 'docs/quickstart.md'
/** The settings that the pages specify for `npm start`. */
const SETTINGS = { HEARTH_FEATURES: 'webhooks', HEARTH_MEMORY: '1' }

/** Each page's commands, minus the exceptions; pages with no commands left are omitted. */
const runnable = [FIRST, ...PAGES.filter((page) => page !== FIRST)].flatMap((page) => {
  const commands = commandsOf(page).filter(({ text }) => !exceptionFor(page, text))
  return commands.length > 0 ? [{ page, commands }] : []
})

describe('the list of documented commands', () => {
  it('is split at line ends outside quotes, without comments', () => {
    const block = "one 'two # 2\nthree' # four\n\n# five\nsix \\\n  \"it's $(seven)\"\nexport A=8#9\n"

    assert.deepEqual(splitCommands(block), [
      { text: "one 'two # 2\nthree'", comment: '# four' },
      { text: 'six \\\n  "it\'s $(seven)"', comment: '' },
      { text: 'export A=8#9', comment: '' },
    ])
  })

  it('has a command for every exception', () => {
    const unused = EXCEPTIONS.filter(
      (exception) =>
        !commandsOf(exception.page).some(({ text }) => exceptionFor(exception.page, text) === exception),
    )

    assert.deepEqual(unused, [])
  })

  it('has no command outside sh blocks, except the two request templates for evaluators', () => {
    const indented = PAGES.flatMap((page) => {
      const text = readFileSync(page, 'utf8').replaceAll(/^( *)```[^]*?^\1```$/gm, '')
      return [...text.matchAll(/^ {4,}(?:npm|npx|node|curl|docker|mocha|pip) .*$/gm)].map(() => page)
    })

    assert.deepEqual(indented, Array(2).fill('docs/cohorts-evaluator.md'))
  })

  it('has every placeholder that the tests fill in', () => {
    const textOf = (page: string) =>
      commandsOf(page)
        .map(({ text }) => text)
        .join('\n')
    const unused = Object.entries(PLACEHOLDERS).flatMap(([page, placeholders]) =>
      placeholders.filter(([text]) => !textOf(page).includes(text)),
    )

    assert.deepEqual(unused, [])
  })
})

describe('documented commands', function () {
  this.timeout(900_000)
  const folder = temporaryFolder()
  let data: ReturnType<typeof dataDirectory>
  let platform: TestPlatform
  let shell: PageShell

  before(requireLlamaCpp)
  before(requireSpecialist)
  before(async () => {
    data = dataDirectory()
    platform = await startTestPlatform(data.path, { env: SETTINGS })
    linkCheckout(folder.path)
    await writeFilesOfPages(folder.path, platform.ready.api_key)
    shell = new PageShell({ folder: folder.path, dataDir: data.path, ready: platform.ready })
  })
  after(async () => {
    shell?.[Symbol.dispose]()
    await platform?.stop()
    data?.[Symbol.dispose]()
    folder[Symbol.dispose]()
  })

  for (const { page, commands } of runnable)
    it(`of ${page} succeed`, async () => {
      const { code, output } = await shell.run(page, commands)

      // The output ends with the command that failed and its messages.
      assert.equal(code, 0, output.slice(-4000))
    })
})
