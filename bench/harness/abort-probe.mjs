// abort-probe.mjs: does a gateway survive clients that leave? It opens N clients and drops them (a) before the upstream
// responds, (b) right after the first byte of a stream, (c) in a flood, one after another from 3 ms on, wherever their
// requests are by then. Afterwards, does the gateway still return 200? Every request has a number, under which fakellm
// reports when its client left (GET /stats). Prints the first number of each phase and the times at which the clients
// left. [KEY=key] [MODEL=model] node abort-probe.mjs URL [N] ['k: v' ...]   (loopback only)
import net from 'node:net'
const u = new URL(process.argv[2])
const N = Number(process.argv[3] || 50)
if (u.hostname !== '127.0.0.1') throw new Error('loopback only')
const key = process.env.KEY || 'sk-test'
const headers = process.argv.slice(4)
const extra = headers.map((h) => h + '\r\n').join('')
const now = () => Math.round((performance.timeOrigin + performance.now()) * 1000)
const msgs = [{ role: 'user', content: 'hi' }]
const req = (b) => {
  const body = JSON.stringify(b)
  return `POST ${u.pathname} HTTP/1.1\r\nHost: ${u.host}\r\nAuthorization: Bearer ${key}\r\n${extra}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}
// resolves with the time at which the client left, in unix microseconds
const drop = (b, when) =>
  new Promise((r) => {
    const c = net.connect(+u.port, u.hostname)
    let left
    const leave = () => {
      left ??= now()
      c.destroy()
    }
    c.on('error', () => {})
    c.on('close', () => r((left ??= now())))
    c.write(req(b))
    if (typeof when === 'number') setTimeout(leave, when)
    else {
      c.once('data', leave)
      setTimeout(leave, 3000).unref()
    }
  })
const alive = async () => {
  try {
    const r = await fetch(u, {
      method: 'POST',
      signal: AbortSignal.timeout(3000),
      headers: {
        ...Object.fromEntries(
          headers.map((x) => [x.slice(0, x.indexOf(':')), x.slice(x.indexOf(':') + 1).trim()]),
        ),
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ model: process.env.MODEL || 'fake', messages: msgs }),
    })
    await r.text()
    return r.status
  } catch (e) {
    return e.cause?.code || e.name
  }
}
// The request would take far longer than the bench, so only a cancelled one ends.
const PHASES = [
  { name: 'sync_before_headers', shape: 'fake-n1-g0-d60000', more: {}, when: () => 500 },
  { name: 'sse_before_headers', shape: 'fake-n20-g10-d60000', more: { stream: true }, when: () => 500 },
  { name: 'sse_after_first_byte', shape: 'fake-n6000-g10-d0', more: { stream: true }, when: () => 'first' },
  { name: 'sync_flood_drop', shape: 'fake-n1-g0-d60000', more: {}, when: (i) => 3 + i },
]
const out = { before: await alive(), phases: [] }
// two probes of one fakellm must not use the same numbers
let from = Date.now() % 1e9
for (const { name, shape, more, when } of PHASES) {
  const left = await Promise.all(
    Array.from({ length: N }, (_, i) => {
      const asked = `${shape}-w${from + i}`
      // gateways route by the model name; `user` carries the name that shapes the response
      return drop({ model: process.env.MODEL || asked, user: asked, ...more, messages: msgs }, when(i))
    }),
  )
  await new Promise((r) => setTimeout(r, 600))
  out.phases.push({ name, alive: await alive(), from, left })
  from += N
}
console.log(JSON.stringify(out))
