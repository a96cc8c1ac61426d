import assert from 'node:assert/strict'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectTo, startApi, type TestApi } from '../../../support/servers/api.ts'

const CSV = { contentType: 'text/csv' }
const CONTENT = '0123456789'

const BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

describe('signed URLs of the local object store', () => {
  let api: TestApi
  let url: string

  before(async () => {
    api = await startApi()
    await api.services.objects.put('a/file.csv', Buffer.from(CONTENT), CSV)
    ;({ url } = await api.services.objects.signGet('a/file.csv', { expiresInS: 60 }))
  })
  after(() => api?.[Symbol.asyncDispose]())

  const get = (headers: Record<string, string>, method = 'GET') => fetch(url, { method, headers })
  const signPut = async (key: string) =>
    (await api.services.objects.signPut(key, { expiresInS: 60, ...CSV })).url

  it('contain the key as one segment and end with the signature', () => {
    assert.match(url, /\/objects\/a%2Ffile\.csv\?[^#]*&signature=[\w-]{43}$/)
  })

  const ranges: [string, number, string, string | null][] = [
    ['bytes=0-0', 206, '0', 'bytes 0-0/10'],
    ['bytes=8-', 206, '89', 'bytes 8-9/10'],
    ['bytes=8-100', 206, '89', 'bytes 8-9/10'],
    ['bytes=-3', 206, '789', 'bytes 7-9/10'],
    ['bytes=-100', 206, CONTENT, 'bytes 0-9/10'],
    ['bytes=5-2', 200, CONTENT, null],
    ['bytes=1-2,4-5', 200, CONTENT, null],
    ['rows=1-2', 200, CONTENT, null],
  ]
  for (const [range, status, body, contentRange] of ranges) {
    it(`answer ${status} to ${range}`, async () => {
      const answer = await get({ range })

      assert.equal(answer.status, status)
      assert.equal(await answer.text(), body)
      assert.equal(answer.headers.get('content-range'), contentRange)
      assert.equal(answer.headers.get('accept-ranges'), 'bytes')
    })
  }

  for (const range of ['bytes=10-', 'bytes=-0']) {
    it(`answer 416 with the size to ${range}`, async () => {
      const answer = await get({ range })

      assert.equal(answer.status, 416)
      assert.equal(answer.headers.get('content-range'), 'bytes */10')
      assert.equal(((await answer.json()) as { error: { code: string } }).error.code, 'range_not_satisfiable')
    })
  }

  it('resume only the same object, and answer 304 to a matching ETag', async () => {
    const etag = (await get({})).headers.get('etag') ?? ''

    assert.equal((await get({ range: 'bytes=5-', 'if-range': etag })).status, 206)
    assert.equal((await get({ range: 'bytes=5-', 'if-range': '"other"' })).status, 200)
    assert.equal((await get({ 'if-none-match': etag })).status, 304)
  })

  it('answer HEAD without the bytes', async () => {
    const answer = await get({}, 'HEAD')

    assert.equal(answer.status, 200)
    assert.equal(answer.headers.get('content-length'), '10')
    assert.equal(await answer.text(), '')
  })

  it('never let uploaded content run as a page', async () => {
    const { headers } = await get({})

    assert.equal(headers.get('x-content-type-options'), 'nosniff')
    assert.equal(headers.get('content-disposition'), 'attachment')
    assert.match(headers.get('content-security-policy') ?? '', /sandbox/)
  })

  it('answer 403 without a signature, or with another method, key, type or name', async () => {
    const put = await signPut('a/new.csv')
    const changed = [
      url.replace(/&signature=.*/, ''),
      // A different signature string that decodes to the same bytes.
      url.replace(/.$/, (last) => BASE64URL[BASE64URL.indexOf(last) ^ 1] ?? ''),
      `${url}&signature=again`,
      url.replace('file.csv', 'new.csv'),
      url.replace('a%2Ffile.csv', 'a%2F..%2Fa%2Ffile.csv'),
      url.replace(/expires=\d+/, 'expires=99999999999'),
      `${url}&filename=other`,
      url.replace('&signature', '&filename=other&signature'),
      put,
    ]
    for (const each of changed) assert.equal((await fetch(each)).status, 403, each)

    const headers = { 'content-type': 'text/csv' }
    assert.equal((await fetch(url, { method: 'PUT', body: 'x', headers })).status, 403)
    const otherType = put.replace('text%2Fcsv', 'text%2Fhtml')
    assert.equal((await fetch(otherType, { method: 'PUT', body: 'x', headers })).status, 403)
  })

  it('accept an upload only with its content type', async () => {
    const put = await signPut('b/typed')
    const types: [Record<string, string>, number][] = [
      [{}, 415],
      [{ 'content-type': 'text/csv; charset=utf-8' }, 415],
      [{ 'content-type': 'TEXT/CSV' }, 200],
    ]
    for (const [headers, status] of types) {
      assert.equal((await fetch(put, { method: 'PUT', body: Buffer.from('x'), headers })).status, status)
    }
  })

  it('store nothing from an interrupted upload', async () => {
    const { pathname, search } = new URL(await signPut('b/broken'))
    const socket = connectTo(api.baseUrl)
    await once(socket, 'connect')

    socket.write(
      `PUT ${pathname}${search} HTTP/1.1\r\nhost: x\r\ncontent-type: text/csv\r\ncontent-length: 1000\r\n\r\nabc`,
    )
    await sleep(100)
    socket.destroy()
    await sleep(200)

    assert.equal(await api.services.objects.head('b/broken'), undefined)
  })
})
