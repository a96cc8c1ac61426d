import assert from 'node:assert/strict'
import { existsSync, globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { guideRoutes } from '../../api/routes/guide/index.ts'
import { idOf, OUTSIDE, pageOf, SIDEBAR } from '../../docs-site/src/pages.ts'
import { readConfig } from '../../platform/config.ts'
import { GUIDE_PATH } from '../../platform/guide.ts'
import { faultsOfSite } from '../../scripts/docs-links.ts'
import { docsPackages, runSite } from '../../scripts/docs-site.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { skipBecause } from '../support/skip.ts'

const PAGES = [...OUTSIDE, ...globSync('docs/**/*.md')]
const MAX_PICTURE_BYTES = 150_000

describe('documentation site', () => {
  it('has a title for each page, and a target for each link', () => {
    for (const path of PAGES) assert.ok(pageOf(readFileSync(path, 'utf8'), path).title.length > 0, path)
  })

  it('shows every page in its sidebar', () => {
    const shown = Object.values(SIDEBAR).flat()
    const pages = PAGES.filter((path) => !path.startsWith('docs/decisions/')).map(idOf)

    assert.deepEqual(shown.toSorted(), pages.toSorted())
  })

  it('rewrites links to pages, and rejects links to files that it does not contain', () => {
    const page = (link: string) =>
      pageOf(`# A title\n\nSee [it](${link}).\n`, 'docs/decisions/0001-x.md').body

    assert.equal(page('../models.md#tables'), 'See [it](/models/#tables).\n')
    assert.equal(page('README.md'), 'See [it](/decisions/).\n')
    assert.equal(page('../../README.md'), 'See [it](/).\n')
    assert.equal(page('../openapi/hearth.json'), 'See [it](/openapi/hearth.json).\n')
    assert.equal(page('https://example.com/x.md'), 'See [it](https://example.com/x.md).\n')
    const { body } = pageOf('# A title\n\n[it](models.md#a)', 'docs/x.md', '/docs/guide/')
    assert.equal(body, '[it](/docs/guide/models/#a)')
    assert.throws(
      () => page('../../deploy/x.yml'),
      /links to deploy\/x\.yml, which the site does not contain/,
    )
  })

  it('has small console screenshots', () => {
    const shown = [...readFileSync('README.md', 'utf8').matchAll(/!\[[^\]]+\]\((docs\/pictures\/[^)]+)\)/g)]

    assert.equal(shown.length, 2)
    for (const [, path = ''] of shown) assert.ok(statSync(path).size < MAX_PICTURE_BYTES, path)
  })

  it('builds with a page for each operation, without dead links and without external resources', async function () {
    this.timeout(600_000)
    const { isInstalled } = await docsPackages(readConfig().HEARTH_CACHE_DIR)
    if (!isInstalled) skipBecause(this, 'its packages are not installed; run npm run docs:build')
    using folder = temporaryFolder()
    await runSite('build', { out: folder.path, base: GUIDE_PATH })

    const { paths } = JSON.parse(readFileSync('docs/openapi/hearth.json', 'utf8')) as {
      paths: Record<string, Record<string, { operationId?: string }>>
    }
    const operations = Object.values(paths).flatMap((path) =>
      Object.values(path).flatMap(({ operationId }) => operationId ?? []),
    )
    assert.ok(operations.length > 100)
    const missing = operations.filter(
      (id) => !existsSync(join(folder.path, 'api/operations', id.toLowerCase(), 'index.html')),
    )
    assert.deepEqual(missing, [])
    assert.ok(existsSync(join(folder.path, 'pagefind/pagefind.js')))
    assert.deepEqual(faultsOfSite(folder.path, GUIDE_PATH), [])

    const shapeOf = (path: string) => path.replaceAll(/[^/]+/g, 'x')
    const served = new Set(guideRoutes(folder.path).map(({ path }) => shapeOf(path)))
    const files = globSync('**/*.*', { cwd: folder.path }).map((path) => path.split(sep).join('/'))
    const tooDeep = files.filter((path) => {
      const address = `${GUIDE_PATH}/${path.replace(/index\.html(?:\.gz)?$/, '')}`
      return !served.has(shapeOf(address))
    })
    assert.deepEqual(tooDeep, [])
    const packed = files.filter((path) => path.endsWith('.html.gz'))
    assert.equal(packed.length, files.filter((path) => path.endsWith('.html')).length)
  })

  it('reports dead links, missing anchors and external resources', () => {
    using folder = temporaryFolder()
    mkdirSync(join(folder.path, 'a'))
    writeFileSync(
      join(folder.path, 'index.html'),
      '<h2 id="x">X</h2><a href="#x">1</a><a href="/a/#y">2</a><a href="b/">3</a><a href="/a/">4</a>' +
        '<script src="https://cdn.example/x.js"></script>',
    )
    writeFileSync(
      join(folder.path, 'a/index.html'),
      '<a href="../#x">5</a><a href="https://example.com">6</a>',
    )

    assert.deepEqual(faultsOfSite(folder.path), [
      '/index.html loads <script src="https://cdn.example/x.js"',
      '/index.html links /a/#y',
      '/index.html links b/',
    ])
  })

  it("reports links that leave the site's path", () => {
    using folder = temporaryFolder()
    writeFileSync(
      join(folder.path, 'index.html'),
      '<h2 id="x">X</h2><a href="/docs/guide/#x">1</a><a href="/index.html">2</a><a href="/docs/guide/a/">3</a>',
    )

    assert.deepEqual(faultsOfSite(folder.path, '/docs/guide'), [
      '/docs/guide/index.html links /index.html',
      '/docs/guide/index.html links /docs/guide/a/',
    ])
  })
})
