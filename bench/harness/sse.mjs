// sse.mjs: SSE driver. Opens C connections, runs streams back to back, reports time to first byte, time to
// first token chunk, one-way chunk delay (fakellm stamps each token with its send time), inter-chunk gaps, chunks/s.
// node sse.mjs --url http://127.0.0.1:9000/v1/chat/completions --c 32 --d 5 --model fake-n50-g10-d0 [--key KEY] [-H 'k: v']
import net from 'node:net'
const a = {
  c: 32,
  d: 5,
  warm: 1,
  url: 'http://127.0.0.1:9000/v1/chat/completions',
  model: 'fake-n50-g10-d0',
  key: 'sk-test',
  max: 100000,
}
const extra = []
for (let i = 2; i < process.argv.length; i += 2) {
  const k = process.argv[i].replace(/^-+/, '')
  if (k === 'H') extra.push(process.argv[i + 1])
  else a[k] = isNaN(process.argv[i + 1]) ? process.argv[i + 1] : Number(process.argv[i + 1])
}
const u = new URL(a.url)
if (u.hostname !== '127.0.0.1') throw new Error('loopback only')
const body = JSON.stringify({
  model: a.as || a.model,
  user: a.model,
  stream: true,
  messages: [{ role: 'user', content: 'Say hello in one short sentence, please.' }],
  max_tokens: 256,
  temperature: 0.7,
})
const req = Buffer.from(
  `POST ${u.pathname} HTTP/1.1\r\nHost: ${u.host}\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\nAuthorization: Bearer ${a.key}\r\n${extra.map((h) => h + '\r\n').join('')}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
)
const now = () => performance.timeOrigin + performance.now()
const t0 = now(),
  from = t0 + a.warm * 1000,
  end = from + Math.min(a.d, 60) * 1000
const ttfb = [],
  ttft = [],
  delay = [],
  gaps = [],
  total = []
let streams = 0,
  bad = 0,
  incomplete = 0,
  chunks = 0,
  reads = 0,
  active = 0,
  started = 0
const DATA = Buffer.from('data:'),
  DONE = Buffer.from('[DONE]'),
  END = Buffer.from('0\r\n\r\n')
function conn() {
  active++
  const s = net.connect(Number(u.port), u.hostname)
  s.setNoDelay(true)
  let sentAt,
    first,
    firstTok,
    last,
    done,
    status,
    tail = Buffer.alloc(0),
    counted,
    finished = false
  const go = () => {
    if (now() >= end || started >= a.max) {
      finished = true
      s.end()
      return
    }
    started++
    first = firstTok = last = status = undefined
    done = false
    tail = Buffer.alloc(0)
    sentAt = now()
    counted = sentAt >= from
    s.write(req)
  }
  s.on('connect', go)
  s.on('data', (b) => {
    const t = now()
    if (first === undefined) {
      first = t
      status = b.toString('latin1', 9, 12)
    }
    if (status !== '200') {
      bad++
      finished = true
      s.destroy()
      return
    }
    const buf = tail.length ? Buffer.concat([tail, b]) : b
    if (counted) reads++
    // whole events only: keep what follows the last blank line
    const cut = buf.lastIndexOf('\n\n')
    if (cut >= 0) {
      const ev = buf.subarray(0, cut + 2)
      for (let i = ev.indexOf(DATA); i >= 0; i = ev.indexOf(DATA, i + 5)) {
        if (counted) chunks++
        if (ev.indexOf(DONE, i) === i + 6) {
          done = true
          continue
        }
        const at = ev.indexOf('@', i)
        const nl = ev.indexOf('\n', i)
        if (at > 0 && at < nl) {
          const sent = Number(ev.toString('latin1', at + 1, at + 17)) / 1000
          if (firstTok === undefined) firstTok = t
          if (counted) {
            delay.push(t - sent)
            if (last !== undefined) gaps.push(t - last)
          }
          last = t
        }
      }
      tail = Buffer.from(buf.subarray(cut + 2))
    } else tail = Buffer.from(buf)
    if (done && (tail.indexOf(END) >= 0 || b.indexOf(END) >= 0)) {
      if (counted) {
        streams++
        ttfb.push(first - sentAt)
        if (firstTok) ttft.push(firstTok - sentAt)
        total.push(t - sentAt)
      }
      go()
    }
  })
  s.on('error', () => {})
  s.on('close', () => {
    active--
    if (!finished) {
      if (!done) incomplete++
      if (now() < end) return conn()
    }
    if (active === 0) report()
  })
}
const pct = (x, p) => {
  if (!x.length) return null
  x.sort((m, n) => m - n)
  return Math.round(x[Math.min(x.length - 1, Math.floor(p * x.length))] * 1000) / 1000
}
function report() {
  const secs = (now() - from) / 1000
  console.log(
    JSON.stringify({
      c: a.c,
      model: a.model,
      streams,
      bad,
      incomplete,
      secs: +secs.toFixed(2),
      chunks_s: Math.round(chunks / secs),
      events_per_read: +(chunks / reads).toFixed(2),
      ttfb_p50: pct(ttfb, 0.5),
      ttfb_p99: pct(ttfb, 0.99),
      ttft_p50: pct(ttft, 0.5),
      ttft_p99: pct(ttft, 0.99),
      chunk_delay_p50: pct(delay, 0.5),
      chunk_delay_p99: pct(delay, 0.99),
      gap_p50: pct(gaps, 0.5),
      gap_p99: pct(gaps, 0.99),
      total_p50: pct(total, 0.5),
    }),
  )
  process.exit(0)
}
setTimeout(
  () => {
    console.error('driver timeout')
    report()
  },
  end - t0 + 30000,
).unref()
for (let i = 0; i < a.c; i++) conn()
