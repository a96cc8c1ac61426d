import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadCatalog } from '../../../platform/catalog.ts'
import { EgressPolicy } from '../../../platform/egress/policy.ts'
import { PublicConnections } from '../../../platform/egress/public-connections.ts'
import { SOON_MS, until } from '../../support/assertions/until.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { requireToolBench, requireToolPython, type ToolBench } from '../../support/servers/nodes/tools.ts'
import { type Receiver, startReceiver } from '../../support/servers/receiver.ts'

const PAGE = `<html><head><title>The page</title></head><body><nav><a href="/menu">Menu entry</a></nav><article><h1>Heading</h1>
<p>${'A sentence of the article with enough words to count as content. '.repeat(8)}</p>
<p>See <a href="/other">the other page</a>.</p><table><tr><th>city</th><th>price</th></tr><tr><td>Bern</td><td>3</td></tr></table>
<pre><code>print(1)</code></pre></article></body></html>`
const CSV = 'city,price\nBern,2\nBern,3\nBasel,10\n'

describe('a tool with external access', function () {
  this.timeout(60_000)
  const stack = new AsyncDisposableStack()
  let bench: ToolBench
  let site: Receiver
  let python: string
  const files = new Map<string, Buffer>()
  const names = new Map<string, string[]>()

  before(async function () {
    this.timeout(300_000)
    python = await requireToolPython(this)
    site = stack.use(
      await startReceiver((req, res) => {
        const path = req.url ?? '/'
        if (path === '/page') return void res.setHeader('content-type', 'text/html').end(PAGE)
        if (path === '/hop') return void res.writeHead(302, { location: '/page' }).end()
        if (path === '/metadata')
          return void res.writeHead(302, { location: 'https://169.254.169.254/latest' }).end()
        if (path === '/inside')
          return void res.writeHead(302, { location: site.url('/page', 'other.test') }).end()
        if (path === '/plain') return void res.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()
        if (path === '/around') return void res.writeHead(302, { location: '/around' }).end()
        const file = files.get(path)
        if (file) return void res.end(file)
        return void res.writeHead(404).end()
      }),
    )
    const folder = stack.use(temporaryFolder()).path
    const fetching = loadCatalog().tools.find(({ tool }) => tool.slug === 'fetch_page')!
    const program = join(folder, 'fetch_page')
    cpSync(fetching.program, program, { recursive: true })
    writeFileSync(join(program, 'ca.pem'), site.certificate)
    const policy = new EgressPolicy({ allow: [`127.0.0.1/32:${site.port}`], block: [] })
    const resolve = async (name: string) => names.get(name) ?? ['127.0.0.1']
    bench = stack.use(
      await requireToolBench(this, {
        more: [{ program, tool: { ...fetching.tool, env: { SSL_CERT_FILE: '/hearth/tool/ca.pem' } } }],
        outside: {
          connections: new PublicConnections(policy, resolve),
          storage: () => ['http://127.0.0.1:1/objects/'],
        },
      }),
    )
    names.set('other.test', ['10.0.0.7'])
    files.set('/prices.csv', Buffer.from(CSV))
    files.set('/prices.json', Buffer.from('[{"city": "Bern", "price": 9007199254740993}]'))
    files.set('/empty', Buffer.alloc(0))
  })
  after(() => stack.disposeAsync())
  afterEach(() => bench && until(async () => (await bench.leftovers()).length === 0, SOON_MS))

  /** Creates a file with the tools' Python libraries, and serves it at `path`. */
  const made = (path: string, code: string) => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'made')
    execFileSync(python, ['-c', code, file])
    files.set(path, readFileSync(file))
  }

  it('fetches the content of a page, even after a redirect', async () => {
    const page = await bench.run('fetch_page', { url: site.url('/hop') })

    assert.equal(page['url'], site.url('/page'))
    assert.equal(page['title'], 'Heading')
    const text = String(page['content'])
    assert.match(text, /# Heading/)
    assert.match(text, /\| Bern \| 3 \|/)
    assert.match(text, /print\(1\)/)
    assert.ok(text.includes(`(${site.url('/other')})`), text)
    assert.doesNotMatch(text, /Menu entry/)
    const html = await bench.run('fetch_page', { url: site.url('/page'), output_format: 'html' })
    assert.equal(html['content'], PAGE)
  })

  it('applies the egress rules to every hop', async () => {
    const cases: [string, RegExp][] = [
      [site.url('/metadata'), /url: 169\.254\.169\.254 cannot be reached: the host must be a name/],
      [site.url('/inside'), /url: other\.test cannot be reached: .* not public/],
      [site.url('/plain'), /url: 127\.0\.0\.1 cannot be reached/],
      ['https://metadata.google.internal/x', /cannot be reached: the host name is not under a public suffix/],
      ['https://localhost/', /cannot be reached/],
      [site.url('/around'), /redirects more than 5 times/],
      [site.url('/none'), /the server responded with 404/],
    ]
    for (const [url, expected] of cases) {
      await assert.rejects(bench.run('fetch_page', { url }), { message: expected }, url)
    }
  })

  it("doesn't share its proxy with other tools", async () => {
    const { stdout } = await bench.python('import os; print(os.path.exists("/hearth/egress.sock"))')
    assert.equal(stdout, 'False\n')
  })

  it('queries tables', async () => {
    const sql = 'select city, avg(price) as mean from data group by city order by city'
    const csv = await bench.run('query_table', { file_url: site.url('/prices.csv'), sql })
    assert.deepEqual(csv['rows'], [
      { city: 'Basel', mean: 10 },
      { city: 'Bern', mean: 2.5 },
    ])
    // The rows of the next file are copied inside the confinement.
    files.set('/excel.csv', Buffer.from('Ort;"Menge\n(kg)"\r\nBern;2\r\nBern;3\r\n'))
    const excel = await bench.run('query_table', {
      file_url: site.url('/excel.csv'),
      sql: 'select sum("Menge\n(kg)") as s from data',
    })
    assert.deepEqual(excel['rows'], [{ s: 5 }])
    const json = await bench.run('query_table', { file_url: site.url('/prices.json'), sql: 'from data' })
    assert.deepEqual(json['rows'], [{ city: 'Bern', price: '9007199254740993' }])
    made(
      '/prices.parquet',
      `import duckdb, sys; duckdb.sql("copy (select 7 as n) to '" + sys.argv[1] + "' (format parquet)")`,
    )
    const parquet = await bench.run('query_table', {
      file_url: site.url('/prices.parquet'),
      sql: 'select n + 1 as m from data',
    })
    assert.deepEqual(parquet['rows'], [{ m: 8 }])
    const many = await bench.run('query_table', {
      file_url: site.url('/prices.csv'),
      sql: 'select * from range(5000)',
    })
    assert.equal(many['row_count'], 1_000)
    assert.equal(many['truncated'], true)
  })

  it("reads dates with the year first, and doesn't guess at others", async () => {
    made('/dates.csv', 'import sys; open(sys.argv[1], "w").write("iso,us\\n2021-03-04,03/04/2021\\n")')
    const sql = `select iso + 1 as iso, us, strptime(us, '%m/%d/%Y')::date as read from data`
    const { rows } = await bench.run('query_table', { file_url: site.url('/dates.csv'), sql })
    assert.deepEqual(rows, [{ iso: '2021-03-05', us: '03/04/2021', read: '2021-03-04' }])

    made(
      '/months.csv',
      'import sys; open(sys.argv[1], "w").write("month,at\\n01-01-21,2/1/21 10:00\\n02-01-21,3/1/21 10:00\\n")',
    )
    const months = await bench.run('query_table', { file_url: site.url('/months.csv'), sql: 'from data' })
    assert.deepEqual(months['rows'], [
      { month: '01-01-21', at: '2/1/21 10:00' },
      { month: '02-01-21', at: '3/1/21 10:00' },
    ])

    made(
      '/dates.json',
      `import sys; open(sys.argv[1], "w").write('[{"us":"02-03-2021","at":"02-03-2021 10:00:00","iso":"2021-02-03","all":["02-03-2021"]}]')`,
    )
    const json = await bench.run('query_table', {
      file_url: site.url('/dates.json'),
      sql: 'select us, "at", iso + 1 as iso, "all" from data',
    })
    assert.deepEqual(json['rows'], [
      { us: '02-03-2021', at: '02-03-2021 10:00:00', iso: '2021-02-04', all: ['02-03-2021'] },
    ])
  })

  it('infers column types from all rows', async () => {
    const write = (format: string, line: string, header = '') =>
      made(
        `/long.${format}`,
        `import sys; open(sys.argv[1], "w").write(${JSON.stringify(header)} + "".join(${line} for i in range(30_000)))`,
      )
    write('csv', `f"{10 if i < 29_000 else 9.5},{i if i < 29_000 else 'SW1A'}\\n"`, 'price,code\n')
    write('json', `'{"price":%s,"code":%s}\\n' % ((10, "null") if i < 29_000 else (9.5, '"SW1A"'))`)
    for (const [format, codes] of [
      ['csv', 30_000],
      ['json', 1_000],
    ] as const) {
      const sql = 'select sum(price) as sum, count(code) as codes, max(code) as code from data'
      const { rows } = await bench.run('query_table', { file_url: site.url(`/long.${format}`), sql })
      assert.deepEqual(rows, [{ sum: 299_500, codes, code: 'SW1A' }], format)
    }
  })

  it('keeps columns with the same name separate', async () => {
    const { columns, rows } = await bench.run('query_table', {
      file_url: site.url('/prices.csv'),
      sql: `select 1 as id, 2 as id, 3 as id_1, 4 as id, 'x' as "ID"`,
    })
    assert.deepEqual(
      (columns as { name: string }[]).map(({ name }) => name),
      ['id', 'id_2', 'id_1', 'id_3', 'ID'],
    )
    assert.deepEqual(rows, [{ id: 1, id_2: 2, id_1: 3, id_3: 4, ID: 'x' }])
  })

  it('rejects queries that reach outside the table', async () => {
    const ask = (sql: string, path = '/prices.csv') =>
      bench.run('query_table', { file_url: site.url(path), sql })
    await assert.rejects(ask("select * from read_text('/etc/passwd')"), { message: /^sql: Permission Error/ })
    await assert.rejects(ask('set enable_external_access = true'), { message: /^sql: / })
    for (const sql of [' ', ';', '-- a comment', '/* a comment */'])
      await assert.rejects(ask(sql), { message: 'sql: it is not a query that returns rows' }, sql)
    await assert.rejects(ask('select nothing from data'), { message: /^sql: Binder Error/ })
    await assert.rejects(ask('select 1', '/empty'), { message: 'file_url: the file is empty' })
    await assert.rejects(ask('select 1', '/none'), { message: 'file_url: the server returned 404' })
    await assert.rejects(ask('select 1', '/inside'), { message: /^file_url: .*not public/ })
    await assert.rejects(bench.run('query_table', { file_url: 'file:///etc/passwd', sql: 'select 1' }), {
      message: 'file_url: the URL must begin with https://',
    })
    await assert.rejects(
      bench.run('query_table', { file_url: 'http://127.0.0.1:1/objects/../api', sql: 'select 1' }),
      { message: 'file_url: the URL must begin with https://' },
    )
  })

  it('reads PDFs', async () => {
    made(
      '/blank.pdf',
      'import pypdf, sys; w = pypdf.PdfWriter(); [w.add_blank_page(72, 72) for _ in range(3)]; w.add_metadata({"/Title": "Blank"}); w.write(sys.argv[1])',
    )
    files.set('/words.pdf', Buffer.from(pdfOf('Some words')))
    const words = await bench.run('extract_pdf', { file_url: site.url('/words.pdf') })
    assert.deepEqual(words['pages'], [{ page: 1, text: 'Some words' }])
    const blank = await bench.run('extract_pdf', { file_url: site.url('/blank.pdf'), pages: '1,3' })
    assert.equal(blank['title'], 'Blank')
    assert.deepEqual(
      (blank['pages'] as { page: number }[]).map(({ page }) => page),
      [1, 3],
    )
    await assert.rejects(bench.run('extract_pdf', { file_url: site.url('/blank.pdf'), pages: '4' }), {
      message: 'pages: 4 is out of range; the file has 3 pages',
    })
    await assert.rejects(bench.run('extract_pdf', { file_url: site.url('/prices.csv') }), {
      message: 'file_url: the file is not a PDF',
    })
  })

  it('converts images', async () => {
    made(
      '/red.png',
      'import sys; from PIL import Image; Image.new("RGBA", (40, 20), (255, 0, 0, 128)).save(sys.argv[1], "PNG")',
    )
    const jpeg = await bench.run('convert_image', {
      image_url: site.url('/red.png'),
      format: 'jpeg',
      width: 20,
    })
    assert.equal(jpeg['content_type'], 'image/jpeg')
    assert.deepEqual([jpeg['width'], jpeg['height']], [20, 10])
    assert.equal(Buffer.from(String(jpeg['image_base64']), 'base64').subarray(0, 3).toString('hex'), 'ffd8ff')
    await assert.rejects(bench.run('convert_image', { image_url: site.url('/prices.csv'), format: 'png' }), {
      message: /^image_url: cannot read the image: /,
    })
    made(
      '/bomb.png',
      'import sys; from PIL import Image; Image.MAX_IMAGE_PIXELS = None; Image.new("1", (20000, 20000)).save(sys.argv[1], "PNG")',
    )
    await assert.rejects(bench.run('convert_image', { image_url: site.url('/bomb.png'), format: 'png' }), {
      message: /^image_url: /,
    })
  })

  /** Returns what a program prints about the image in a result; the program receives it as `image`. */
  const seen = (result: Record<string, unknown>, code: string): unknown => {
    const start = 'import base64, io, json, sys; from PIL import Image, ImageSequence\n'
    const image = 'image = Image.open(io.BytesIO(base64.b64decode(sys.stdin.read())))\n'
    const input = String(result['image_base64'])
    return JSON.parse(
      execFileSync(python, ['-c', `${start}${image}print(json.dumps(${code}))`], { input }).toString(),
    )
  }

  it('scales 16-bit grayscale images to 8 bits', async () => {
    made(
      '/grey.png',
      `import sys; from PIL import Image; image = Image.new("I;16", (256, 1))
for x in range(256): image.putpixel((x, 0), x * 257)
image.save(sys.argv[1], "PNG")`,
    )
    const png = await bench.run('convert_image', { image_url: site.url('/grey.png'), format: 'png' })
    const greys = seen(png, '[image.getpixel((x, 0)) for x in range(256)]')
    assert.deepEqual(
      greys,
      Array.from({ length: 256 }, (_, x) => [x, x, x]),
    )
  })

  it('keeps the frames of an animation, or reports that it used only the first frame', async () => {
    const frames = `import sys; from PIL import Image
frames = [Image.new("RGBA", (50, 20)) for n in range(5)]
for n in range(5): frames[n].paste((50 + 40 * n, 0, 0, 255), (10 * n, 0, 10 * n + 10, 20))`
    const saved = (kind: string, more: string) =>
      `${frames}\nframes[0].save(sys.argv[1], "${kind}", save_all=True, append_images=frames[1:], duration=[100, 200, 300, 400, 500], ${more})`
    made('/moving.gif', saved('GIF', 'disposal=2, comment=b"secret"'))
    made('/moving.webp', saved('WEBP', 'loop=3'))
    const colours =
      '[[f.convert("RGBA").getpixel((5 * n + 2, 5)) for n in range(5)] for f in ImageSequence.Iterator(image)]'
    const times = '[(f.load(), f.info["duration"])[1] for f in ImageSequence.Iterator(image)]'
    for (const [file, format, loop] of [
      ['/moving.gif', 'gif', null],
      ['/moving.gif', 'webp', 1],
      ['/moving.webp', 'gif', 3],
      ['/moving.webp', 'webp', 3],
    ] as const) {
      const moving = await bench.run('convert_image', { image_url: site.url(file), format, width: 25 })
      const found = seen(moving, `[image.size, image.info.get("loop"), ${times}, ${colours}]`) as unknown[]
      assert.deepEqual(found.slice(0, 3), [[25, 10], loop, [100, 200, 300, 400, 500]], `${file} ${format}`)
      for (const [n, row] of (found[3] as number[][][]).entries())
        for (const [index, [red = 0, , , alpha = 0]] of row.entries()) {
          const what = `${file} ${format} ${n} ${index}`
          assert.ok(Math.abs(alpha - (index === n ? 255 : 0)) < 8, `${what}: ${alpha}`)
          if (index === n) assert.ok(Math.abs(red - 50 - 40 * n) < 16, `${what}: ${red}`)
        }
      assert.ok(!Buffer.from(String(moving['image_base64']), 'base64').includes('secret'))
      assert.equal(moving['note'], undefined)
    }
    const still = await bench.run('convert_image', { image_url: site.url('/moving.gif'), format: 'png' })
    assert.equal(still['note'], "only the first of the file's 5 frames was used")
    await assert.rejects(
      bench.run('convert_image', { image_url: site.url('/moving.gif'), format: 'gif', width: 10_000 }),
      { message: 'width: the result would have more than 50 megapixels in its 5 frames' },
    )
  })
})

/** A PDF of one page with one line of text. */
function pdfOf(text: string): string {
  const content = `BT /F1 24 Tf 20 100 Td (${text}) Tj ET`
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>',
    `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
  ]
  let out = '%PDF-1.4\n'
  const offsets = objects.map((object, n) => {
    const at = out.length
    out += `${n + 1} 0 obj\n${object}\nendobj\n`
    return at
  })
  const start = out.length
  const table = offsets.map((at) => `${String(at).padStart(10, '0')} 00000 n \n`).join('')
  return `${out}xref\n0 6\n0000000000 65535 f \n${table}trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`
}
