import cluster from 'node:cluster'
import { createHash } from 'node:crypto'
import * as crypto from 'node:crypto'
// proxy.mjs: pass-through gateway variants, to find the limits of the Node stack.
// FRONT=http|koa  BACK=dispatch|request|pipeline|fetch|ufetch|agent  PARSE=none|parse|restringify
// PORT=8000 TARGET=http://127.0.0.1:9000 CONNS=128 PIPE=1 CLUSTER=0 UNDICI=<path>
import http from 'node:http'
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { pipeline as pump } from 'node:stream'
const E = process.env
const MODS = E.MODS || process.cwd() + '/'
const require = createRequire(MODS)
const FRONT = E.FRONT || 'http',
  BACK = E.BACK || 'dispatch',
  PARSE = E.PARSE || 'parse',
  PORT = +(E.PORT || 8000),
  N = +(E.CLUSTER || 0)
if (N && cluster.isPrimary) {
  for (let i = 0; i < N; i++) cluster.fork()
  process.on('SIGTERM', () => {
    for (const w of Object.values(cluster.workers)) w.kill()
    process.exit(0)
  })
} else start()
function start() {
  const undici = createRequire(E.UNDICI || MODS)('undici')
  const TARGET = E.TARGET || 'http://127.0.0.1:9000',
    CONNS = +(E.CONNS || 128)
  const pool = new undici.Pool(TARGET, {
    connections: CONNS,
    pipelining: +(E.PIPE || 1),
    keepAliveTimeout: 60000,
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  const agent = new http.Agent({ keepAlive: true, maxSockets: CONNS, noDelay: true })
  const T = new URL(TARGET)
  const sha = crypto.hash
    ? (s) => crypto.hash('sha256', s, 'base64url')
    : (s) => createHash('sha256').update(s).digest('base64url')
  const keys = new Map([[sha('sk-test'), { account: 'acc', rpm: 1e9 }]])
  for (let i = 0; i < 10000; i++) keys.set(sha('sk-' + i), { account: 'a' + i })
  const bad = (res, code, type, message) => {
    if (res.headersSent) return res.destroy()
    const b = JSON.stringify({ error: { message, type } })
    res.writeHead(code, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(b) })
    res.end(b)
  }
  class Relay {
    // undici handler: upstream bytes straight to the client's socket
    constructor(res) {
      this.res = res
      this.c = null
    }
    onRequestStart(c) {
      this.c = c
      this.res.on('close', () => {
        if (!this.res.writableFinished) c.abort(new Error('client gone'))
      })
    }
    onResponseStart(c, status, h) {
      const out = { 'content-type': h['content-type'] || 'application/json' }
      if (h['content-length']) out['content-length'] = h['content-length']
      else out['cache-control'] = 'no-cache'
      this.res.writeHead(status, out)
    }
    onResponseData(c, chunk) {
      if (!this.res.write(chunk)) {
        c.pause()
        this.res.once('drain', () => c.resume())
      }
    }
    onResponseEnd() {
      this.res.end()
    }
    onResponseError(c, e) {
      if (!this.res.destroyed) bad(this.res, 502, 'upstream_error', e.message)
    }
  }
  const H = { 'content-type': 'application/json' }
  async function forward(res, body) {
    const opts = { method: 'POST', path: '/v1/chat/completions', headers: H, body }
    if (BACK === 'dispatch') return void pool.dispatch(opts, new Relay(res))
    if (BACK === 'request') {
      const r = await pool.request(opts)
      res.writeHead(
        r.statusCode,
        r.headers['content-length']
          ? { 'content-type': r.headers['content-type'], 'content-length': r.headers['content-length'] }
          : { 'content-type': r.headers['content-type'] },
      )
      return void pump(r.body, res, () => {})
    }
    if (BACK === 'fetch' || BACK === 'ufetch') {
      const r =
        BACK === 'fetch'
          ? await fetch(TARGET + opts.path, { method: 'POST', headers: H, body })
          : await undici.fetch(TARGET + opts.path, { method: 'POST', headers: H, body, dispatcher: pool })
      res.writeHead(r.status, { 'content-type': r.headers.get('content-type') })
      if (E.FULL) {
        res.end(JSON.stringify(await r.json()))
        return
      }
      return void pump(Readable.fromWeb(r.body), res, () => {})
    }
    if (BACK === 'agent') {
      const q = http.request(
        {
          host: T.hostname,
          port: T.port,
          path: opts.path,
          method: 'POST',
          agent,
          headers: { ...H, 'content-length': body.length },
        },
        (r) => {
          res.writeHead(r.statusCode, r.headers)
          pump(r, res, () => {})
        },
      )
      q.on('error', (e) => bad(res, 502, 'upstream_error', e.message))
      q.end(body)
    }
  }
  function auth(req) {
    const h = req.headers.authorization
    if (!h || h.length < 8) return null
    return keys.get(sha(h.slice(7)))
  }
  const handle = (req, res) => {
    if (!auth(req)) return bad(res, 401, 'invalid_api_key', 'Invalid API key')
    const parts = []
    let size = 0
    req.on('data', (d) => {
      parts.push(d)
      size += d.length
    })
    req.on('end', () => {
      let body = parts.length === 1 ? parts[0] : Buffer.concat(parts, size)
      if (PARSE !== 'none') {
        let j
        try {
          j = JSON.parse(body)
        } catch {
          return bad(res, 400, 'invalid_request_error', 'bad JSON')
        }
        if (typeof j.model !== 'string' || !Array.isArray(j.messages))
          return bad(res, 400, 'invalid_request_error', 'model and messages needed')
        if (PARSE === 'restringify') body = Buffer.from(JSON.stringify({ ...j, model: j.model }))
      }
      forward(res, body).catch((e) => bad(res, 502, 'upstream_error', e.message))
    })
  }
  let listener = handle
  if (FRONT === 'koa' || FRONT === 'koa-mw') {
    const Koa = require('koa')
    const app = new Koa()
    if (FRONT === 'koa-mw')
      for (let i = 0; i < 5; i++)
        app.use(async (ctx, next) => {
          ctx.state['m' + i] = i
          await next()
        })
    app.use((ctx) => {
      ctx.respond = false
      handle(ctx.req, ctx.res)
    })
    listener = app.callback()
  } else if (FRONT === 'koa-body') {
    // the usual Koa way: ctx.body = stream
    const Koa = require('koa')
    const app = new Koa()
    app.use(async (ctx) => {
      if (!auth(ctx.req)) {
        ctx.status = 401
        ctx.body = { error: { message: 'Invalid API key', type: 'invalid_api_key' } }
        return
      }
      const parts = []
      for await (const d of ctx.req) parts.push(d)
      const body = Buffer.concat(parts)
      JSON.parse(body)
      const r = await pool.request({ method: 'POST', path: '/v1/chat/completions', headers: H, body })
      ctx.status = r.statusCode
      ctx.type = r.headers['content-type']
      if (r.headers['content-length']) ctx.length = +r.headers['content-length']
      ctx.body = r.body
    })
    listener = app.callback()
  }
  const srv = http.createServer(
    { noDelay: true, keepAliveTimeout: 65000, requestTimeout: 0, highWaterMark: 65536 },
    listener,
  )
  srv.listen(PORT, '127.0.0.1', 1024)
}
