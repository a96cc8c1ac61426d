import assert from 'node:assert/strict'
import { until } from '../support/assertions/until.ts'
import { buildRun } from '../support/builders/build-endpoint.ts'
import { openSignedIn } from '../support/builders/console.ts'
import { readyDataset } from '../support/builders/training.ts'
import type { ConsoleTab } from '../support/servers/clients/browser.ts'
import { ConsoleWorld } from '../support/servers/worlds/console-world.ts'

/** The width of most phones. */
const NARROW = 390

/** The properties that the test reads from a region of the page. */
interface ScrollState {
  scrollLeft: number
  scrollWidth: number
  clientWidth: number
}

describe('console tables wider than the screen', function () {
  this.timeout(120_000)
  let on: ConsoleWorld
  let runs: string[]
  before(async function () {
    on = await ConsoleWorld.start(this)
    const { db } = on.api.database
    const { accountId } = on.caller
    const dataset_id = await readyDataset(on.api, accountId)
    const made = {
      status: 'failed',
      dataset_id,
      error_message: 'no column',
      completed_at: new Date(),
    } as const
    runs = [(await buildRun(db, accountId, made)).id, (await buildRun(db, accountId, made)).id]
  })
  after(() => on?.[Symbol.asyncDispose]())

  const regionOf = ({ page }: ConsoleTab, name: string) =>
    page.getByRole('region', { name: `Table of ${name}`, exact: true })
  const scrolled = (tab: ConsoleTab, name: string): Promise<ScrollState> =>
    regionOf(tab, name).evaluate(({ scrollLeft, scrollWidth, clientWidth }: ScrollState) => ({
      scrollLeft,
      scrollWidth,
      clientWidth,
    }))

  /** Captures a few pixels at both edges of a region, above the text of its first row. */
  async function edges(tab: ConsoleTab, name: string): Promise<{ left: string; right: string }> {
    const box = await regionOf(tab, name).boundingBox()
    assert.ok(box)
    const strip = async (x: number): Promise<string> => {
      const clip = { x: Math.ceil(x), y: Math.ceil(box.y) + 1, width: 2, height: 4 }
      return (await tab.page.screenshot({ clip })).toString('base64')
    }
    return { left: await strip(box.x), right: await strip(Math.floor(box.x + box.width) - 3) }
  }

  const shown = () =>
    [
      ['/runs', 'runs'],
      [`/compare?runs=${runs.join(',')}`, 'settings and metrics'],
    ] as const

  for (const scheme of ['light', 'dark'] as const) {
    it(`mark only the edges with more content, in ${scheme} colors`, async () => {
      for (const [path, name] of shown()) {
        await using tab = await openSignedIn(on.browser, on.api, path, on.caller.key, {
          scheme,
          width: NARROW,
        })
        await regionOf(tab, name).scrollIntoViewIfNeeded()
        await tab.picture(`wide-${name.replaceAll(' ', '-')}-${scheme}`)
        await regionOf(tab, name).scrollIntoViewIfNeeded()
        const { scrollWidth, clientWidth } = await scrolled(tab, name)
        assert.ok(scrollWidth > clientWidth + 60, `${name} fits: ${scrollWidth} in ${clientWidth}`)

        const begin = await edges(tab, name)
        await regionOf(tab, name).evaluate((region: ScrollState) => (region.scrollLeft = 60))
        const middle = await edges(tab, name)
        await regionOf(tab, name).evaluate((region: ScrollState) => (region.scrollLeft = region.scrollWidth))
        const end = await edges(tab, name)

        const plain = begin.left
        assert.notEqual(begin.right, plain, `${name}: nothing shows that there is more`)
        assert.notEqual(middle.left, plain, `${name}: nothing shows that there is more before`)
        assert.notEqual(middle.right, plain)
        assert.equal(end.right, plain, `${name}: the end looks as if there were more`)
        assert.equal(end.left, middle.left)
        assert.deepEqual(await tab.barriers(), [])
        assert.deepEqual(tab.faults, [])
      }
    })
  }

  it('have no edge marks on a screen that they fit', async () => {
    await using tab = await on.open('/runs')
    await regionOf(tab, 'runs').waitFor()

    const { left, right } = await edges(tab, 'runs')

    assert.equal(left, right)
  })

  it('scroll by keyboard', async () => {
    await using tab = await openSignedIn(on.browser, on.api, '/runs', on.caller.key, { width: NARROW })
    await regionOf(tab, 'runs').focus()

    await tab.page.keyboard.press('ArrowRight')

    await until(async () => (await scrolled(tab, 'runs')).scrollLeft > 0)
  })
})
